package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// level is what a finding means for the person who asks.
type level string

const (
	levelOK   level = "ok"
	levelWarn level = "warn" // something will not happen that might be missed
	levelFail level = "fail" // steward cannot do its work
)

// finding is one thing that works here, or does not.
type finding struct {
	Area  string `json:"area"`
	Name  string `json:"name"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do"` // what helps; "" for what works
}

func works(name, format string, args ...any) finding {
	return finding{Name: name, Level: levelOK, Text: fmt.Sprintf(format, args...)}
}

func doubt(name, do, format string, args ...any) finding {
	return finding{Name: name, Level: levelWarn, Text: fmt.Sprintf(format, args...), Do: do}
}

func broken(name, do, format string, args ...any) finding {
	return finding{Name: name, Level: levelFail, Text: fmt.Sprintf(format, args...), Do: do}
}

// probe is one part of the examination. Its context ends before it is left behind.
type probe struct {
	area, name string
	look       func(context.Context) []finding
}

// How long the parts may take: reading the configuration, asking the daemon, and then all probes side by side. With
// grace after each, a machine on which everything hangs is examined within 5 s.
const (
	settingsTime = 500 * time.Millisecond
	askTime      = 1200 * time.Millisecond
	probeTime    = 2200 * time.Millisecond
	probeGrace   = 250 * time.Millisecond
)

// within gives f's answer, or false if it does not come in time. What hangs in the kernel cannot be ended; it is left
// behind, and ends with the process.
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

// examine runs the probes side by side and keeps their order.
func examine(ctx context.Context, limit time.Duration, probes []probe) []finding {
	found := make([][]finding, len(probes))
	done := make(chan struct{})
	for i, p := range probes {
		go func() {
			list, ok := within(ctx, limit, p.look)
			if !ok {
				list = []finding{silent(p.name, limit)}
			}
			for n := range list {
				list[n].Area = p.area
			}
			found[i] = list
			done <- struct{}{}
		}()
	}
	var all []finding
	for range probes {
		<-done
	}
	for _, list := range found {
		all = append(all, list...)
	}
	return all
}

func silent(name string, limit time.Duration) finding {
	return broken(name, "find out what hangs there: a disk, a network folder, a service", "no answer within %s", limit)
}

// patient is what all probes start from.
type patient struct {
	app    *app
	now    time.Time
	uid    int
	who    service.Account
	config configFacts
	cfg    config.Config // the defaults, if the file is refused
	paths  platform.Paths
	daemon daemonFacts
}

func (a *app) doctorCommand() *cobra.Command {
	var reach bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works here, what does not, and what to do about it",
		Long: "doctor looks at the program, its configuration, the service, the daemon, the projects, their boot scripts, and the ways\n" +
			"to reach you. It changes nothing, sends nothing, needs no daemon, and takes 5 s at most. It exits with 1 when something\n" +
			"fails; warnings do not count. With --reach it sends a real test by every channel, and waits 30 s for you to press its button.",
		Example: "  steward doctor\n  steward doctor --reach\n  steward doctor -o json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), reach) },
	}
	c.Flags().BoolVar(&reach, "reach", false, "send a real test by every channel")
	return c
}

// diagnosis is the document of `doctor`.
type diagnosis struct {
	OK     bool      `json:"ok"`
	Checks []finding `json:"checks"`
}

func (a *app) doctor(ctx context.Context, reach bool) error {
	d := &patient{app: a, now: time.Now(), uid: os.Getuid()}
	var err error
	if d.who, err = (serviceOptions{}).account(); err != nil { // root through sudo
		d.who = service.Account{User: "root", Home: os.Getenv("HOME")}
	}
	d.readSettings(ctx)
	d.askDaemon(ctx)
	all := examine(ctx, probeTime, d.probes())
	if reach {
		all = append(all, d.tryReach(ctx)...)
	}
	if err = ctx.Err(); err != nil {
		return err
	}
	doc := diagnosis{OK: true, Checks: all}
	for _, f := range all {
		doc.OK = doc.OK && f.Level != levelFail
	}
	if err = a.printDiagnosis(doc); err != nil {
		return err
	}
	if !doc.OK {
		return quiet{exitFailed}
	}
	return nil
}

func (d *patient) probes() []probe {
	known := func(f func() []finding) func(context.Context) []finding {
		return func(context.Context) []finding { return f() }
	}
	all := []probe{
		{"program", "program", known(d.program)},
		{"configuration", "configuration", known(func() []finding { return judgeConfig(d.config, d.daemon.doc != nil) })},
		{"service", "service", d.services},
		{"daemon", "daemon", known(d.daemonState)},
		{"watching", "watches", d.watches},
		{"watching", "gauges", d.gauges},
		{"watching", "descriptors", known(d.descriptors)},
	}
	all = append(all, d.projectProbes()...)
	return append(all,
		probe{"reaching you", "channels", known(func() []finding { return judgeChannels(d.cfg.Escalate.Channels, d.daemon.doc) })},
		probe{"reaching you", "desktop", d.desktop},
		probe{"reaching you", "speech", d.speech},
		probe{"reaching you", "push", d.push})
}

// look is how the level stands on a terminal.
func (l level) look() terminal.Style {
	switch l {
	case levelWarn:
		return terminal.Yellow
	case levelFail:
		return terminal.Red
	}
	return terminal.Green
}

func (a *app) printDiagnosis(doc diagnosis) error {
	if a.output == "json" {
		return a.print(doc)
	}
	p := a.page()
	area, count := "", map[level]int{}
	for _, f := range doc.Checks {
		if f.Area != area {
			if area != "" {
				p.Full("")
			}
			area = f.Area
			p.Full("%s", p.Dye(area, terminal.Bold))
		}
		count[f.Level]++
		renderFinding(p, f)
	}
	p.Full("\n%s", tally(count))
	return a.write(p.String())
}

// renderFinding does not cut: commands in it are to be copied.
func renderFinding(p *page, f finding) {
	p.Full("  %s%*s%s: %s", p.Dye(string(f.Level), f.Level.look()), 6-len(f.Level), "", terminal.Clean(f.Name), terminal.Clean(f.Text))
	if f.Do != "" {
		p.Full("        → %s", terminal.Clean(f.Do))
	}
}

func tally(count map[level]int) string {
	if count[levelFail]+count[levelWarn] == 0 {
		return "everything works"
	}
	return terminal.Plural(count[levelFail], "failure") + ", " + terminal.Plural(count[levelWarn], "warning")
}

// askDaemon gets the picture of the daemon, if one runs.
func (d *patient) askDaemon(ctx context.Context) {
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

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// mayRead and mayWrite ask the kernel about a folder, which knows access lists and read-only disks too.
func mayRead(path string) error { return unix.Access(path, unix.R_OK|unix.X_OK) }

func mayWrite(path string) error { return unix.Access(path, unix.W_OK|unix.X_OK) }

// freeAt is how many bytes are left for this user on the disk of a folder; -1 if that is not known.
func freeAt(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}

// descriptorLimit is how many files this process may open.
func descriptorLimit() (limit uint64, ok bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return uint64(r.Cur), true
}
