package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// launchd keeps steward as a LaunchAgent of the user, or as a LaunchDaemon of the machine, by launchctl alone.
// kardianos/service writes nothing here: its Install expands our text as a template (a path with {{ would break it),
// writes in place and refuses to replace, and its Start and Stop are launchctl's legacy load and unload.
type launchd struct {
	system  bool
	uid     int    // who is asking
	home    string // whose LaunchAgents
	run     run
	daemons string // the folder of the machine's plists

	pace     time.Duration // between two looks
	steady   time.Duration // a service that runs for so long has started
	settle   time.Duration // for how long launchd may need to forget what it has ended
	patience time.Duration // for an end or a start
}

// newLaunchd: run starts a program and gives what it prints (both streams); its error says the exit code
// (*exec.ExitError, wrapped or not).
func newLaunchd(system bool, uid int, home string, run func(ctx context.Context, argv ...string) (string, error)) *launchd {
	return &launchd{
		system: system, uid: uid, home: home, run: run, daemons: "/Library/LaunchDaemons",
		pace: 100 * time.Millisecond, steady: time.Second, settle: 15 * time.Second, patience: (exitSeconds + 10) * time.Second,
	}
}

func (l *launchd) plist() string {
	if l.system {
		return filepath.Join(l.daemons, Label+".plist")
	}
	return filepath.Join(l.home, "Library", "LaunchAgents", Label+".plist")
}

// domains are where the service may be loaded, the best first. The last one keeps the record of what is disabled.
func (l *launchd) domains() []string {
	if l.system {
		return []string{"system"}
	}
	return []string{fmt.Sprintf("gui/%d", l.uid), fmt.Sprintf("user/%d", l.uid)}
}

// permitted says what the caller lacks for a change.
func (l *launchd) permitted() error {
	switch {
	case l.system && l.uid != 0:
		return &Lack{"the machine's service needs root", "run it with sudo"}
	case !l.system && l.uid == 0:
		return &Lack{"root has no session of its own for a user's service", "run it without sudo, or with --system"}
	}
	return nil
}

// session is the domain to start in.
func (l *launchd) session(ctx context.Context) (string, error) {
	for _, d := range l.domains() {
		_, err := l.ctl(ctx, "print", d)
		if err == nil {
			return d, nil
		}
		if !refused(err, codeNoDomain, codeNoService, codeNoSupport) {
			return "", err
		}
	}
	return "", &Lack{fmt.Sprintf("launchd has no session for user %d", l.uid),
		"log in on the Mac or by ssh as that user, or run: sudo steward service install --system"}
}

// sessionType is what the plist says of the domain.
func (l *launchd) sessionType(domain string) string {
	switch domain {
	case "system":
		return ""
	case fmt.Sprintf("user/%d", l.uid):
		return inBackground
	}
	return onDesktop
}

// Render gives the plist for the session that there is now; without any, for the desktop.
func (l *launchd) Render(spec Spec) ([]File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	domain, err := l.session(ctx)
	if err != nil {
		domain = l.domains()[0]
	}
	return l.render(spec, domain)
}

func (l *launchd) render(spec Spec, domain string) ([]File, error) {
	sum, err := sumOf(spec.Binary)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a unit may be shown before its program is there
		return nil, doing("read the program", err)
	}
	text, err := renderPlist(spec, l.sessionType(domain), sum)
	return []File{{Path: l.plist(), Text: text}}, err
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// before is what stood there before a change.
type before struct {
	job      job
	text     string
	there    bool // the plist
	disabled bool
}

// foreign: somebody else wrote a plist under our label.
func (b before) foreign() bool { return b.there && !strings.Contains(b.text, plistMark) }

func (l *launchd) look(ctx context.Context) (b before, err error) {
	text, err := os.ReadFile(l.plist())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, doing("read the plist", err)
	}
	b.text, b.there = string(text), err == nil
	if b.job, err = l.find(ctx); err != nil {
		return b, err
	}
	b.disabled, err = l.disabled(ctx)
	return b, err
}

// Install writes the plist and has launchd load it.
func (l *launchd) Install(ctx context.Context, spec Spec, handOver func()) (Outcome, error) {
	out := Outcome{Unit: l.plist()}
	if err := l.permitted(); err != nil {
		return out, err
	}
	if st, err := os.Stat(spec.Binary); err != nil || !st.Mode().IsRegular() {
		return out, fmt.Errorf("install the service: %s is not a program; build or install steward first", spec.Binary)
	}
	domain, err := l.session(ctx)
	if err != nil {
		return out, err
	}
	files, err := l.render(spec, domain)
	if err != nil {
		return out, err
	}
	was, err := l.look(ctx)
	switch {
	case err != nil:
		return out, doing("install the service", err)
	case was.foreign():
		return out, fmt.Errorf("install the service: %s was not written by steward; move it away first", l.plist())
	}
	if l.sessionType(domain) == inBackground {
		out.Notes = append(out.Notes, "nobody is logged in at the screen: steward runs without popups and voice; install it again from the desktop to have them")
	}
	text := files[0].Text
	if was.text == text && was.job.domain == domain && was.job.program == spec.Binary && was.job.state == "running" {
		if out.Changed = was.disabled; was.disabled { // it runs now, but would not at the next login
			_, err = l.ctl(ctx, "enable", was.job.target())
		}
		return out, doing("install the service", err)
	}
	if err := l.replace(ctx, was, domain, text, handOver); err != nil {
		return out, doing("install the service", err)
	}
	if out.Changed = true; was.text != text {
		out.Wrote = []string{l.plist()}
	}
	return out, nil
}

// replace puts the new plist in place of what was there, or leaves things as they were. The old service is unloaded
// before its plist is replaced: a crash in between must not leave a new file that looks as if it were loaded.
func (l *launchd) replace(ctx context.Context, was before, domain, text string, handOver func()) error {
	if was.job.pid != 0 && handOver != nil {
		handOver()
	}
	err := l.bootout(ctx)
	if err == nil {
		err = l.write(text)
	}
	if err == nil {
		err = l.bootstrap(ctx, domain, l.plist())
	}
	if err == nil {
		err = l.running(ctx, domain, 0)
	}
	if err == nil {
		return nil
	}
	if e := l.restore(context.WithoutCancel(ctx), was); e != nil {
		return both(err, doing("roll back", e))
	}
	return fmt.Errorf("%w; what was there before is there again", err)
}

// restore has its own bound: it is needed most when the caller's time is up.
func (l *launchd) restore(ctx context.Context, was before) error {
	ctx, cancel := context.WithTimeout(ctx, 2*l.patience+l.settle)
	defer cancel()
	err := l.bootout(ctx)
	if was.there {
		err = both(err, l.write(was.text))
	} else if e := os.Remove(l.plist()); !errors.Is(e, fs.ErrNotExist) {
		err = both(err, e)
	}
	if was.job.loaded() {
		from := l.plist()
		if filepath.IsAbs(was.job.path) {
			from = was.job.path // it may have been loaded from elsewhere
		}
		err = both(err, l.bootstrap(ctx, was.job.domain, from))
	}
	if was.disabled { // after the bootstrap, which needs it enabled
		_, e := l.ctl(ctx, "disable", l.domains()[0]+"/"+Label)
		err = both(err, e)
	}
	return err
}

func (l *launchd) write(text string) error {
	if old, err := os.ReadFile(l.plist()); err == nil && string(old) == text {
		return nil // a folder that refuses the new file must not refuse the roll-back
	}
	return doing("write the plist", write(File{Path: l.plist(), Text: text}))
}

// Uninstall leaves launchd's record of what is disabled alone: it is the operator's.
func (l *launchd) Uninstall(ctx context.Context) (Outcome, error) {
	out := Outcome{Unit: l.plist()}
	if err := l.permitted(); err != nil {
		return out, err
	}
	was, err := l.look(ctx)
	switch {
	case err != nil:
		return out, doing("uninstall the service", err)
	case !was.there && !was.job.loaded():
		return out, ErrNotInstalled
	case was.foreign():
		return out, fmt.Errorf("uninstall the service: %s was not written by steward; remove it by hand", l.plist())
	}
	if err := l.bootout(ctx); err != nil {
		return out, doing("uninstall the service", err)
	}
	out.Changed = true
	if !was.there {
		return out, nil
	}
	if err := os.Remove(l.plist()); err != nil {
		return out, doing("uninstall the service", err)
	}
	out.Removed = []string{l.plist()}
	return out, nil
}

// known is what an installed service looks like now; ErrNotInstalled without one.
func (l *launchd) known(ctx context.Context) (job, error) {
	if err := l.permitted(); err != nil {
		return job{}, err
	}
	j, err := l.find(ctx)
	if err != nil || j.loaded() {
		return j, err
	}
	if _, err := os.Stat(l.plist()); err != nil {
		return j, ErrNotInstalled
	}
	return j, nil
}

// Start loads the service, or has launchd start it if it is loaded and has ended.
func (l *launchd) Start(ctx context.Context) error {
	j, err := l.known(ctx)
	if err != nil {
		return doing("start the service", err)
	}
	return doing("start the service", l.start(ctx, j))
}

func (l *launchd) start(ctx context.Context, j job) error {
	if j.state == "running" {
		return nil
	}
	if j.loaded() {
		if _, err := l.ctl(ctx, "kickstart", j.target()); err != nil && !refused(err, codeAlready) {
			return err
		}
		return l.running(ctx, j.domain, j.runs)
	}
	domain, err := l.session(ctx)
	if err != nil {
		return err
	}
	if err := l.bootstrap(ctx, domain, l.plist()); err != nil {
		return err
	}
	return l.running(ctx, domain, 0)
}

// Stop unloads the service until the next login or boot: killed, KeepAlive might bring it back.
func (l *launchd) Stop(ctx context.Context) error {
	if _, err := l.known(ctx); err != nil {
		return doing("stop the service", err)
	}
	return doing("stop the service", l.bootout(ctx))
}

// Restart asks the process to end before it has launchd start the next one: kickstart -k alone kills it outright,
// and what it holds would stay held. Who does not listen is killed by it in the end.
func (l *launchd) Restart(ctx context.Context) error {
	j, err := l.known(ctx)
	if err != nil {
		return doing("restart the service", err)
	}
	if j.pid != 0 {
		j, err = l.terminate(ctx, j)
	}
	if err == nil {
		err = l.start(ctx, j)
	}
	return doing("restart the service", err)
}

// terminate gives the job as it is after the end of its process.
func (l *launchd) terminate(ctx context.Context, old job) (now job, err error) {
	if _, err := l.ctl(ctx, "kill", "SIGTERM", old.target()); err != nil && !refused(err, codeNoProcess) {
		return old, err
	}
	err = l.until(ctx, l.patience, func() (bool, error) {
		now, err = l.print(ctx, old.domain)
		return err != nil || now.pid != old.pid, err
	})
	if err != nil || now.pid != old.pid {
		return now, err
	}
	if _, err := l.ctl(ctx, "kickstart", "-k", old.target()); err != nil && !refused(err, codeAlready) {
		return now, err
	}
	if err := l.running(ctx, old.domain, old.runs); err != nil {
		return now, err
	}
	return l.print(ctx, old.domain)
}

// seeLog ends a complaint about the process itself.
func (l *launchd) seeLog() string {
	return "; see its log, or: launchctl print " + l.domains()[0] + "/" + Label
}

// Status says what launchd knows.
func (l *launchd) Status(ctx context.Context) (Status, error) {
	s := Status{Manager: "launchd (user)", State: "inactive"}
	if l.system {
		s.Manager = "launchd (system)"
	}
	was, err := l.look(ctx)
	if err != nil {
		s.State = "unknown"
		return s, doing("ask launchd", err)
	}
	if s.Installed = was.there || was.job.loaded(); !s.Installed {
		return s, nil
	}
	if was.there {
		s.Unit, s.Binary, s.Enabled = l.plist(), plistProgram(was.text), !was.disabled
	}
	if was.job.loaded() {
		was.job.fill(&s)
	}
	return s, nil
}
