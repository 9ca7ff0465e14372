package doctor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
	"golang.org/x/sys/unix"
)

// Level is what a finding means for the user.
type Level string

const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn" // something will not happen that the user may expect
	LevelFail Level = "fail" // steward cannot do its work
)

// Finding is the result of one check.
type Finding struct {
	Area  string `json:"area"`
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do"` // the remedy; "" if the check passed
}

func working(name, format string, args ...any) Finding {
	return Finding{Name: name, Level: LevelOK, Text: fmt.Sprintf(format, args...)}
}

func warning(name, do, format string, args ...any) Finding {
	return Finding{Name: name, Level: LevelWarn, Text: fmt.Sprintf(format, args...), Do: do}
}

func broken(name, do, format string, args ...any) Finding {
	return Finding{Name: name, Level: LevelFail, Text: fmt.Sprintf(format, args...), Do: do}
}

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
	{area: "boot scripts", each: (*facts).bootScripts},
	{area: "reaching you", name: "channels", run: (*facts).channels},
	{area: "reaching you", name: "desktop", run: (*facts).desktop},
	{area: "reaching you", name: "speech", run: (*facts).speech},
	{area: "reaching you", name: "push", run: (*facts).push},
}

// Time limits of the parts: reading the configuration, asking the daemon, and then all probes in parallel. With a grace
// period after each, the examination ends within 5 s even on a machine on which everything hangs.
const (
	settingsTime = 500 * time.Millisecond
	askTime      = 1200 * time.Millisecond
	probeTime    = 2200 * time.Millisecond
	probeGrace   = 250 * time.Millisecond
)

// within returns f's answer, or false if it does not come in time. A call that hangs in the kernel cannot be ended: it
// is abandoned, and ends with the process.
func within[T any](ctx context.Context, limit time.Duration, f func(context.Context) T) (T, bool) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan T, 1)
	go func() { answer <- f(inner) }()
	timer := time.NewTimer(limit + probeGrace)
	defer timer.Stop()
	select {
	case v := <-answer:
		return v, true
	case <-timer.C:
	case <-ctx.Done():
	}
	var none T
	return none, false
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

// facts are what all checks share. They are gathered once.
type facts struct {
	o      Options
	now    time.Time
	uid    int
	who    service.Account
	config configFacts
	cfg    config.Config // the defaults, if the file is rejected
	paths  platform.Paths
	daemon daemonFacts
	beat   daemon.Heartbeat // steward's own; zero if it cannot be read
	// projects are those of the configuration, and others that the daemon supervises.
	projects []projectFacts
}

// Options say what to examine, and for which account.
type Options struct {
	Version string
	// ConfigFile is the configuration named on the command line, "" for the platform's default.
	ConfigFile string
	Settings   func() (config.Config, platform.Paths, error)
	Paths      func() platform.Paths
	// Binary returns the path of this program that survives an upgrade.
	Binary func() (string, error)
	// Account returns the caller's account; with system, the account that the machine's unit of that user runs as.
	Account func(system bool, user string) (service.Account, error)
	// Spec returns the service that would be installed.
	Spec func(system bool, binary string, who service.Account) (service.Spec, error)
	// Reach sends a real test through every channel; Say announces it.
	Reach    bool
	Announce func(text string)
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

// mayRead and mayWrite ask the kernel about a folder, because it also knows access lists and read-only disks.
func mayRead(path string) error { return unix.Access(path, unix.R_OK|unix.X_OK) }

func mayWrite(path string) error { return unix.Access(path, unix.W_OK|unix.X_OK) }

// freeAt returns the bytes that this user may still write on the folder's disk; -1 if unknown.
func freeAt(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}

// descriptorLimit returns how many files this process may open.
func descriptorLimit() (limit uint64, ok bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return uint64(r.Cur), true
}
