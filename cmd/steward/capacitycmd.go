package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
)

func (a *app) capacityCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:     "capacity",
		Short:   "Show how full the machine is, what binds, and who waits",
		Long:    "capacity shows the used share of each dimension, what was admitted and what that is expected to take, the largest\nconsumers, and the tasks that are held. Without a running steward it takes the readings itself.",
		Example: "  steward capacity\n  steward capacity --watch",
		RunE: func(c *cobra.Command, _ []string) error {
			paths, err := a.reach()
			if err != nil {
				return err
			}
			m := &capacityView{app: a, client: status.NewClient(paths.Socket)}
			if watch {
				return m.watch(c.Context())
			}
			return m.show(c.Context())
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "a fresh picture every second, on one screen, until interrupted; as text when it is no terminal")
	return c
}

// capacityView shows the capacity as the daemon reports it, or measures it itself when no daemon answers.
type capacityView struct {
	app    *app
	client *status.Client
	gauge  *measure.Gauge
	refs   []config.ProjectRef
	limit  capacity.Config
}

func (m *capacityView) show(ctx context.Context) error {
	raw, err := m.read(ctx)
	if err != nil {
		return err
	}
	return present(m.app, raw, views.Capacity)
}

func (m *capacityView) read(ctx context.Context) (json.RawMessage, error) {
	var raw json.RawMessage
	err := m.client.Get(ctx, "/v1/capacity", &raw)
	switch {
	case errors.Is(err, status.ErrNoDaemon):
		return m.measure(ctx)
	case err != nil:
		return nil, failed(err, "show the capacity")
	}
	return raw, nil
}

// shownConsumers is the number of processes listed.
const shownConsumers = 5

// pause separates the first two samples: CPU usage is computed from the difference between them.
const pause = 300 * time.Millisecond

// measure takes the readings without a daemon.
func (m *capacityView) measure(ctx context.Context) (json.RawMessage, error) {
	if m.gauge == nil {
		m.furnish()
		m.gauge.Sample(time.Now())
		if err := rest(ctx, pause); err != nil {
			return nil, err
		}
	}
	load := daemon.ByProjectName(m.gauge.Sample(time.Now()), m.refs)
	at, s := load.At.UTC(), load.Summary()
	return json.Marshal(status.Capacity{
		Alone: true, At: &at, Threshold: m.limit.Threshold, Cores: load.Cores, MemoryBytes: load.MemoryTotal, Because: load.Because, Stalled: load.Stalled,
		ExhaustedSeconds: load.Exhausted.Seconds(), Promised: supervisor.Promised{CPU: load.CPU, Memory: load.Memory}, Claims: []supervisor.ClaimReport{}, Consumers: append([]protocol.Consumer{}, m.gauge.Consumers(shownConsumers)...),
		Load: supervisor.LoadReport(s), Gates: []status.Gate{}, Held: []status.Held{}, Waiting: []status.Waiting{},
	})
}

// furnish sets up the gauge for the project folders. With an invalid configuration it measures with the defaults.
func (m *capacityView) furnish() {
	cfg, paths, err := m.app.settings()
	if err != nil {
		cfg = config.Defaults()
	}
	m.limit = cfg.Capacity
	m.refs = m.app.knownProjects(cfg, paths)
	m.gauge = measure.New(daemon.PathsOf(m.refs)...)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
