package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/spf13/cobra"
)

// WhyFlag adds --why.
func WhyFlag(c *cobra.Command, why *string) {
	c.Flags().StringVar(why, "why", "", "the reason, for the journal: `TEXT`")
}

// PathSegment escapes a typed name as one path segment.
func PathSegment(name string) (string, error) {
	switch name {
	case "", ".", "..":
		return "", Usagef("%q names nothing; see: steward status", name)
	}
	return url.PathEscape(name), nil
}

// PostOrder sends the daemon an order, with the reason that the user gave.
func PostOrder(ctx context.Context, a *App, doing, path, why string) (json.RawMessage, error) {
	var raw json.RawMessage
	err := a.Ask(ctx, doing, func(c *status.Client) error {
		if why == "" {
			return c.Post(ctx, path, nil, &raw)
		}
		return c.Post(ctx, path, status.Order{Why: why}, &raw)
	})
	return raw, err
}

// IsAgentName reports whether an agent may join under this name. The name becomes a file name, and users type it in commands.
func IsAgentName(name string) bool {
	return jsonfile.PlainName(name) && !strings.ContainsAny(name[:1], ".- ") && strings.TrimSpace(name) == name && len(name) <= 100
}

// OutliveReader keeps a supervising process alive when the reader of its output exits, as in `steward run | head`: later
// output is lost. SIGPIPE is caught rather than ignored: child processes inherit an ignored signal, while a caught signal
// is reset to its default in them. All other commands end with their reader.
func OutliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// ProjectFlag adds --project.
func ProjectFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "project", "", "the project's `DIR` (default: the current folder)")
}
