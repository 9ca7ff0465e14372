package daemon

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsRetry is the interval between attempts to listen on an address that is not available.
const metricsRetry = 15 * time.Second

// metricsServer serves the metrics over TCP.
type metricsServer struct {
	registry *prometheus.Registry
	reports  *reports
	changed  wakeup // the address may have changed
}

// Run serves /metrics over TCP if the configuration asks for it. An address in use raises an incident, but
// never ends supervision. It is retried, and a reload that changes the address takes effect.
func (m *metricsServer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		addr := m.address()
		if addr == "" {
			m.served("no address is configured any more")
			m.wait(ctx, 0)
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			m.taken(addr, err)
			m.wait(ctx, metricsRetry)
			continue
		}
		m.served("they are served on " + addr)
		m.serveOn(ctx, l, addr)
	}
	return nil
}

// serveOn serves until the address changes, or ctx ends.
func (m *metricsServer) serveOn(ctx context.Context, l net.Listener, addr string) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	go func() { served <- status.Serve(ctx, l, mux) }()
	for {
		select {
		case err := <-served:
			if err != nil && ctx.Err() == nil {
				m.taken(addr, err)
				m.wait(ctx, metricsRetry)
			}
			return
		case <-m.changed:
			if m.address() != addr {
				stop()
				<-served
				return
			}
		}
	}
}

// wait waits for a reload, but at most for the given time if that is positive.
func (m *metricsServer) wait(ctx context.Context, most time.Duration) {
	var after <-chan time.Time
	if most > 0 {
		after = time.After(most)
	}
	select {
	case <-ctx.Done():
	case <-m.changed:
	case <-after:
	}
}

func (m *metricsServer) address() string { return m.reports.settings.config().Status.MetricsListen }

func metricsAlert() rules.Alert { return ownAlert("metrics_unavailable", protocol.Medium, "metrics") }

func (m *metricsServer) taken(addr string, err error) {
	a := metricsAlert()
	a.Summary, a.Occurrence = "metrics are not served: "+addr+" cannot be used", addr
	a.Detail = err.Error() + ". Supervision goes on, and the address is tried again. Free it, or change metrics_listen under [status] and run: steward reload"
	m.reports.raise(a)
}

func (m *metricsServer) served(why string) { m.reports.resolve(metricsAlert(), why) }
