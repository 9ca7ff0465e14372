package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/livhana/steward"
	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

func (a *app) capacityCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:     "capacity",
		Short:   "Show how full the machine is, what binds, and who waits",
		Long:    "capacity shows the used share of each dimension, the largest consumers, and the tasks that are held. Without a running\nsteward it takes the readings itself.",
		Example: "  steward capacity\n  steward capacity --watch",
		RunE: func(c *cobra.Command, _ []string) error {
			paths, err := a.reach()
			if err != nil {
				return err
			}
			m := &meter{app: a, client: status.NewClient(paths.Socket)}
			if watch {
				return m.watch(c.Context())
			}
			return m.show(c.Context())
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "a fresh picture every second, until interrupted")
	return c
}

// meter shows the capacity: the daemon's word, or its own reading while no daemon answers.
type meter struct {
	app    *app
	client *status.Client
	gauge  *measure.Gauge
	limit  capacity.Config
}

func (m *meter) show(ctx context.Context) error {
	raw, err := m.read(ctx)
	if err != nil {
		return err
	}
	return present(m.app, raw, renderCapacity)
}

func (m *meter) read(ctx context.Context) (json.RawMessage, error) {
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

// shownConsumers is how many processes are named.
const shownConsumers = 5

// pause lies between the first two samples, for the processor's share is what happened in between.
const pause = 300 * time.Millisecond

// measure takes the readings without a daemon.
func (m *meter) measure(ctx context.Context) (json.RawMessage, error) {
	if m.gauge == nil {
		m.furnish()
		m.gauge.Sample(time.Now())
		if err := rest(ctx, pause); err != nil {
			return nil, err
		}
	}
	load := m.gauge.Sample(time.Now())
	at, s := load.At.UTC(), load.Summary()
	return json.Marshal(status.Capacity{
		At: &at, Threshold: m.limit.Threshold, Consumers: append([]protocol.Consumer{}, m.gauge.Consumers(shownConsumers)...),
		Load: supervisor.LoadReport(s), Gates: []status.Gate{}, Held: []status.Held{},
	})
}

// furnish sets up the gauge for the folders of the projects. A bad configuration is no reason not to measure.
func (m *meter) furnish() {
	cfg, paths, err := m.app.settings()
	if err != nil {
		cfg = steward.Defaults()
	}
	m.limit = cfg.Capacity
	m.gauge = measure.New(pathsOf(m.app.knownProjects(cfg, paths))...)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// What redraws a terminal: go home, and clear what is below.
const redraw = "\x1b[H\x1b[J"

// watch shows the capacity every second: in place on a terminal, else as blocks one after the other.
func (m *meter) watch(ctx context.Context) error {
	for first := true; ; first = false {
		raw, err := m.read(ctx)
		if err == nil {
			switch {
			case m.app.output == "json":
			case isTerminal(m.app.out):
				_ = m.app.write(redraw)
			case !first:
				_ = m.app.write("\n")
			}
			err = present(m.app, raw, renderCapacity)
		}
		if err == nil {
			err = rest(ctx, time.Second)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func renderCapacity(p *page, c status.Capacity) {
	head := "load " + share(c.Load.Used) + fmt.Sprintf(" of %.0f %%", 100*c.Threshold)
	if c.Load.Binding != "" {
		head += ", " + clean(c.Load.Binding) + " binds"
	}
	if c.Running > 0 {
		head += ", " + plural(c.Running, "task") + " running"
	}
	p.styled(bold, "%s", head)
	p.table("  ", nil, dimensionRows(p, c)...)
	p.part("Largest consumers", "", consumerRows(c.Consumers))
	p.part("Held", "nothing is held", heldRows(p, c.Held))
}

func dimensionRows(p *page, c status.Capacity) [][]cell {
	var rows [][]cell
	for _, d := range capacity.Dimensions() {
		used := map[string]protocol.Share{capacity.DimCPU: c.Load.CPU, capacity.DimMemory: c.Load.Memory, capacity.DimFiles: c.Load.Files, capacity.DimDisk: c.Load.Disk}[d]
		look := plain
		if used.Or(0) > c.Threshold {
			look = red
		}
		rows = append(rows, []cell{text(d), {share(used), look}, {bar(used), look}, text(shutSince(p, c.Gates, d))})
	}
	for _, g := range c.Gates {
		if g.Dimension == capacity.DimAgent {
			rows = append(rows, []cell{text("agent " + g.Agent), text(""), text(""), text(gateWords(p, g))})
		}
	}
	return rows
}

// bar draws a share in tenths.
func bar(s protocol.Share) string {
	v, known := s.Value()
	if !known {
		return ""
	}
	n := int(v*10 + 0.5)
	return strings.Repeat("#", n) + strings.Repeat(".", 10-n)
}

func shutSince(p *page, gates []status.Gate, dimension string) string {
	for _, g := range gates {
		if g.Dimension == dimension {
			return gateWords(p, g)
		}
	}
	return ""
}

func gateWords(p *page, g status.Gate) string {
	return fmt.Sprintf("shut for %s, %s waiting", short(p.now.Sub(g.Since)), plural(g.Waiting, "task"))
}

func consumerRows(list []protocol.Consumer) [][]cell {
	var rows [][]cell
	for _, c := range list {
		files := ""
		if c.Files > 0 {
			files = plural(c.Files, "file")
		}
		rows = append(rows, []cell{text(fmt.Sprintf("pid %d", c.PID)), text(fmt.Sprintf("%.1f cores", c.CPU)), text(mebibytes(c.Memory)), text(files), text(c.Name)})
	}
	return rows
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

func heldRows(p *page, held []status.Held) [][]cell {
	var rows [][]cell
	for _, h := range held {
		since := ""
		if h.Since != nil {
			since = "for " + short(p.now.Sub(*h.Since))
		}
		due := ""
		if h.NotBefore != nil {
			due = "due " + p.ago(h.NotBefore)
		}
		rows = append(rows, []cell{text(h.Subject), text(h.Agent), text(h.Priority.String()), text(h.Reason), text(since), text(due), {h.Why, dim}})
	}
	return rows
}
