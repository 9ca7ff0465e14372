package daemon

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// metricsRetry is the interval between attempts to listen on an address that is not available.
const metricsRetry = 15 * time.Second

// serveMetrics serves /metrics over TCP if the configuration asks for it. An address in use raises an incident, but
// never ends supervision. It is retried, and a reload that changes the address takes effect.
func (h *Daemon) serveMetrics(ctx context.Context) error {
	for ctx.Err() == nil {
		addr := h.metricsAddress()
		if addr == "" {
			h.metricsServed("no address is configured any more")
			h.waitForMetrics(ctx, 0)
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			h.metricsTaken(addr, err)
			h.waitForMetrics(ctx, metricsRetry)
			continue
		}
		h.metricsServed("they are served on " + addr)
		h.serveMetricsOn(ctx, l, addr)
	}
	return nil
}

// serveMetricsOn serves until the address changes, or ctx ends.
func (h *Daemon) serveMetricsOn(ctx context.Context, l net.Listener, addr string) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{}))
	go func() { served <- status.Serve(ctx, l, mux) }()
	for {
		select {
		case err := <-served:
			if err != nil && ctx.Err() == nil {
				h.metricsTaken(addr, err)
				h.waitForMetrics(ctx, metricsRetry)
			}
			return
		case <-h.metricsChanged:
			if h.metricsAddress() != addr {
				stop()
				<-served
				return
			}
		}
	}
}

// waitForMetrics waits for a reload, but at most for the given time if that is positive.
func (h *Daemon) waitForMetrics(ctx context.Context, most time.Duration) {
	var after <-chan time.Time
	if most > 0 {
		after = time.After(most)
	}
	select {
	case <-ctx.Done():
	case <-h.metricsChanged:
	case <-after:
	}
}

func (h *Daemon) metricsAddress() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cfg.Status.MetricsListen
}

// wakeMetrics makes serveMetrics read the address again.
func (h *Daemon) wakeMetrics() {
	select {
	case h.metricsChanged <- struct{}{}:
	default:
	}
}

func metricsAlert() rules.Alert {
	return rules.Alert{Kind: "metrics_unavailable", Severity: protocol.Medium, Foreign: true,
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "metrics"}}
}

func (h *Daemon) metricsTaken(addr string, err error) {
	a := metricsAlert()
	a.Summary, a.Occurrence = "metrics are not served: "+addr+" cannot be used", addr
	a.Detail = err.Error() + ". Supervision goes on, and the address is tried again. Free it, or change metrics_listen under [status] and run: steward reload"
	if err := h.tell(a); err != nil {
		h.log.Error("write incident", "error", err)
	}
}

func (h *Daemon) metricsServed(why string) {
	a := metricsAlert()
	a.Resolve, a.Detail = true, why
	_ = h.tell(a)
}
