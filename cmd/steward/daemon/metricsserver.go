package daemon

import (
	"context"
	"net"
	"net/http"
	"sync"
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
	*reports
	registry *prometheus.Registry
	changed  wakeup // the address may have changed
}

// Run serves /metrics over TCP if the configuration asks for it. An address in use raises an incident, but
// never ends supervision. It is retried, and a reload that changes the address takes effect.
func (m *metricsServer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		m.serveConfigured(ctx)
	}
	return nil
}

// serveConfigured serves on the configured address until the configuration changes, ctx ends, or the address was not
// available for metricsRetry.
func (m *metricsServer) serveConfigured(ctx context.Context) {
	var helper sync.WaitGroup
	defer helper.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	addr := m.address()
	helper.Go(func() {
		defer stop()
		for addr == m.address() {
			select {
			case <-ctx.Done():
				return
			case <-m.changed:
			}
		}
	})
	if addr == "" {
		m.resolve(metricsAlert(), "no address is configured any more")
		<-ctx.Done()
		return
	}
	l, err := net.Listen("tcp", addr)
	if err == nil {
		m.resolve(metricsAlert(), "they are served on "+addr)
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
		err = status.Serve(ctx, l, mux)
	}
	if err != nil && ctx.Err() == nil {
		a := metricsAlert()
		a.Summary, a.Occurrence = "metrics are not served: "+addr+" cannot be used", addr
		a.Detail = err.Error() + ". Supervision goes on, and the address is tried again. Free it, or change metrics_listen under [status] and run: steward reload"
		m.raise(a)
		select {
		case <-ctx.Done():
		case <-time.After(metricsRetry):
		}
	}
}

func (m *metricsServer) address() string { return m.settings.config().Status.MetricsListen }

func metricsAlert() rules.Alert { return ownAlert("metrics_unavailable", protocol.Medium, "metrics") }
