package doctor

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
)

// check is one part of the examination. Its context ends shortly before the check is abandoned.
type check struct {
	area, name string
	run        func(*facts, context.Context) []Finding
	// each runs once for each project, instead of run: a disk that hangs affects only its own projects.
	each func(*facts, context.Context, projectFacts) []Finding
}

// checks are all checks, in the order of the report.
var checks = []check{
	{area: "program", name: "program", run: (*facts).program},
	{area: "configuration", name: "configuration", run: (*facts).configuration},
	{area: "service", name: "service", run: (*facts).services},
	{area: "daemon", name: "daemon", run: (*facts).daemonState},
	{area: "watching", name: "watches", run: (*facts).watches},
	{area: "watching", name: "gauges", run: (*facts).gauges},
	{area: "watching", name: "descriptors", run: (*facts).descriptors},
	{area: "projects", name: "projects", run: (*facts).anyProject},
	{area: "projects", each: (*facts).project},
	{area: "agents", each: (*facts).roles},
	{area: "boot scripts", each: (*facts).bootScripts},
	{area: "reaching you", name: "channels", run: (*facts).channels},
	{area: "reaching you", name: "desktop", run: (*facts).desktop},
	{area: "reaching you", name: "speech", run: (*facts).speech},
	{area: "reaching you", name: "push", run: (*facts).push},
}

// probe is a check of this machine, or of one of its projects.
type probe struct {
	area, name string
	look       func(context.Context) []Finding
}

// probes are the checks to run, in the order of the report.
func (d *facts) probes() []probe {
	var all []probe
	for _, c := range checks {
		if c.run != nil {
			all = append(all, probe{c.area, c.name, func(ctx context.Context) []Finding { return c.run(d, ctx) }})
			continue
		}
		for _, p := range d.projects {
			all = append(all, probe{c.area, p.ref.Name, func(ctx context.Context) []Finding { return c.each(d, ctx, p) }})
		}
	}
	return all
}

// examine runs the probes in parallel and returns their findings in the order of the probes.
func examine(ctx context.Context, limit time.Duration, probes []probe) []Finding {
	found := make([][]Finding, len(probes))
	done := make(chan struct{})
	for i, p := range probes {
		go func() {
			list, ok := within(ctx, limit, p.look)
			if !ok {
				list = []Finding{silent(p.name, limit)}
			}
			for n := range list {
				list[n].Area = p.area
			}
			found[i] = list
			done <- struct{}{}
		}()
	}
	var all []Finding
	for range probes {
		<-done
	}
	for _, list := range found {
		all = append(all, list...)
	}
	return all
}

func silent(name string, limit time.Duration) Finding {
	return broken(name, "find out what hangs there: a disk, a network folder, a service", "no answer within %s", limit)
}

// Diagnosis is the document of `doctor`.
type Diagnosis struct {
	OK     bool      `json:"ok"`
	Checks []Finding `json:"checks"`
}

// Examine runs every check. It changes nothing.
func Examine(ctx context.Context, o Options) (Diagnosis, error) {
	d := &facts{o: o, now: time.Now(), uid: os.Getuid()}
	var err error
	if d.who, err = o.Account(false, ""); err != nil { // root through sudo
		d.who = service.Account{User: "root", Home: os.Getenv("HOME")}
	}
	d.readSettings(ctx)
	var both sync.WaitGroup // together, to keep within 5 s
	both.Go(func() { d.askDaemon(ctx) })
	both.Go(func() {
		d.beat, _ = within(ctx, askTime, func(context.Context) daemon.Heartbeat {
			beat, _ := daemon.ReadHeartbeat(d.paths.State)
			return beat
		})
	})
	both.Wait()
	d.projects = d.knownProjects()
	all := examine(ctx, probeTime, d.probes())
	if o.Reach {
		all = append(all, d.tryReach(ctx)...)
	}
	if err := ctx.Err(); err != nil {
		return Diagnosis{}, err
	}
	doc := Diagnosis{OK: true, Checks: all}
	for _, f := range all {
		doc.OK = doc.OK && f.Level != LevelFail
	}
	return doc, nil
}

// askDaemon fetches the status of the daemon, if one runs.
func (d *facts) askDaemon(ctx context.Context) {
	type answer struct {
		doc status.Document
		err error
	}
	got, ok := within(ctx, askTime, func(ctx context.Context) answer {
		var a answer
		a.err = status.NewClient(d.paths.Socket).Get(ctx, "/v1/status", &a.doc)
		return a
	})
	switch {
	case !ok:
		d.daemon.err = context.DeadlineExceeded
	case got.err != nil:
		d.daemon.err = got.err
	default:
		d.daemon.doc = &got.doc
	}
}
