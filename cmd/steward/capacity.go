package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/cmd/steward/gate"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

func newCapacityCommand(a *cli.App) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:     "capacity",
		Short:   "Show how full the machine is, what binds, and who waits",
		Long:    "capacity shows the used share of each dimension, what was admitted and what that is expected to take, the largest\nconsumers, and the tasks that are held. Without a running steward it takes the readings itself.",
		Example: "  steward capacity\n  steward capacity --watch",
		RunE: func(c *cobra.Command, _ []string) error {
			paths, err := a.Reach()
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
	app    *cli.App
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
	return cli.Present(m.app, raw, views.Capacity)
}

func (m *capacityView) read(ctx context.Context) (json.RawMessage, error) {
	var raw json.RawMessage
	err := m.client.Get(ctx, "/v1/capacity", &raw)
	switch {
	case errors.Is(err, status.ErrNoDaemon):
		return m.measure(ctx)
	case err != nil:
		return nil, cli.Failed(err, "show the capacity")
	}
	return raw, nil
}

// shownConsumers is the number of processes listed.
const shownConsumers = 5

// measure takes the readings without a daemon.
func (m *capacityView) measure(ctx context.Context) (json.RawMessage, error) {
	if m.gauge == nil {
		m.prepare()
		m.gauge.Sample(time.Now())
		if err := cli.Sleep(ctx, gate.Pause); err != nil {
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

// prepare sets up the gauge for the project folders. With an invalid configuration it measures with the defaults.
func (m *capacityView) prepare() {
	cfg, paths, err := m.app.Settings()
	if err != nil {
		cfg = config.Defaults()
	}
	m.limit = cfg.Capacity
	m.refs = m.app.KnownProjects(cfg, paths)
	m.gauge = measure.New(daemon.PathsOf(m.refs)...)
}

// watch shows the capacity every second: on a terminal it redraws one screen, otherwise it prints block after block. On a
// terminal the last picture remains after the end.
func (m *capacityView) watch(ctx context.Context) error {
	if m.app.Output == "json" || !terminal.IsTerminal(m.app.Out) {
		return m.stream(ctx)
	}
	last, err := m.live(ctx)
	if err == nil {
		err = m.app.Write(last)
	}
	return err
}

// stream prints one document after the other.
func (m *capacityView) stream(ctx context.Context) error {
	for first := true; ; first = false {
		raw, err := m.read(ctx)
		if err == nil {
			if !first && m.app.Output != "json" {
				_ = m.app.Write("\n")
			}
			err = cli.Present(m.app, raw, views.Capacity)
		}
		if err == nil {
			err = cli.Sleep(ctx, time.Second)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// live draws the capacity and its last minute until the context ends, and returns the last drawing.
func (m *capacityView) live(ctx context.Context) (last string, err error) {
	past := views.History{}
	return terminal.Live(ctx, m.app.Out, time.Second, time.Now, func(ctx context.Context) (string, string, error) {
		raw, err := m.read(ctx)
		if err != nil {
			return "", "", err
		}
		var doc status.Capacity
		if err := json.Unmarshal(raw, &doc); err != nil {
			return "", "", fmt.Errorf("read steward's answer: %w", err)
		}
		past.Add(doc)
		p := m.app.Page()
		views.Capacity(p, doc)
		last := p.String()
		views.DrawHistory(p, past)
		return last, p.String(), nil
	})
}
