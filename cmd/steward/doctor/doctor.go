package doctor

import (
	"context"
	"fmt"
	"os"
	"time"

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

// probe is one part of the examination. Its context ends shortly before the probe is abandoned.
type probe struct {
	area, name string
	look       func(context.Context) []Finding
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

// examination is the input of all probes.
type examination struct {
	o      Options
	now    time.Time
	uid    int
	who    service.Account
	config configFacts
	cfg    config.Config // the defaults, if the file is rejected
	paths  platform.Paths
	daemon daemonFacts
}

// Options say what to examine, and for which account.
type Options struct {
	Version string
	// ConfigFile is the configuration named on the command line, "" for the platform's default.
	ConfigFile string
	Settings   func() (config.Config, platform.Paths, error)
	Place      func() platform.Paths
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
	d := &examination{o: o, now: time.Now(), uid: os.Getuid()}
	var err error
	if d.who, err = o.Account(false, ""); err != nil { // root through sudo
		d.who = service.Account{User: "root", Home: os.Getenv("HOME")}
	}
	d.readSettings(ctx)
	d.askDaemon(ctx)
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

func (d *examination) probes() []probe {
	known := func(f func() []Finding) func(context.Context) []Finding {
		return func(context.Context) []Finding { return f() }
	}
	all := []probe{
		{"program", "program", known(d.program)},
		{"configuration", "configuration", known(func() []Finding { return judgeConfig(d.config, d.daemon.doc != nil) })},
		{"service", "service", d.services},
		{"daemon", "daemon", known(d.daemonState)},
		{"watching", "watches", d.watches},
		{"watching", "gauges", d.gauges},
		{"watching", "descriptors", known(d.descriptors)},
	}
	all = append(all, d.projectProbes()...)
	return append(all,
		probe{"reaching you", "channels", known(func() []Finding { return judgeChannels(d.cfg.Escalate.Channels, d.daemon.doc) })},
		probe{"reaching you", "desktop", d.desktop},
		probe{"reaching you", "speech", d.speech},
		probe{"reaching you", "push", d.push})
}

// askDaemon fetches the status of the daemon, if one runs.
func (d *examination) askDaemon(ctx context.Context) {
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
