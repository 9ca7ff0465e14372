package push

import (
	"context"
	"net"
	"net/http"
)

// DialThrough makes all connections use dial, without a proxy.
func (n *Ntfy) DialThrough(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t := n.client.Transport.(*http.Transport)
	t.DialContext, t.Proxy = dial, nil
}

// Seal and Open expose the encoding and decoding of a press.
func (n *Ntfy) Seal(p Press) (string, bool)    { return n.seal(p) }
func (n *Ntfy) Open(body string) (Press, bool) { return n.open(body) }

// Clean exposes the cleaning of texts.
func Clean(s string, limit int) string { return clean(s, limit) }
