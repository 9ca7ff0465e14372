package push

import (
	"context"
	"net"
	"net/http"
)

// DialThrough has the connections made by dial, and by no proxy.
func (n *Ntfy) DialThrough(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t := n.client.Transport.(*http.Transport)
	t.DialContext, t.Proxy = dial, nil
}

// Seal and Open are the two ends of a press.
func (n *Ntfy) Seal(p Press) (string, bool)    { return n.seal(p) }
func (n *Ntfy) Open(body string) (Press, bool) { return n.open(body) }

// Clean is what texts go through.
func Clean(s string, limit int) string { return clean(s, limit) }
