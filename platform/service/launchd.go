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

// launchd installs steward as a LaunchAgent of the user or a LaunchDaemon of the machine, using only launchctl.
// kardianos/service is not used here: its Install expands our text as a template (a path with {{ would break it),
// does not write atomically and refuses to replace a file, and its Start and Stop use launchctl's legacy load and
// unload.
type launchd struct {
	system  bool
	uid     int    // the caller's uid
	home    string // the home that contains LaunchAgents
	run     run
	daemons string // the folder of the machine's plists

	pace     time.Duration // poll interval
	steady   time.Duration // a service that has run this long counts as started
	settle   time.Duration // how long launchd may need to remove a service that has ended
	patience time.Duration // timeout for a stop or a start
}

// newLaunchd takes a function that runs a program and returns its output (both streams); the function's error must
// contain the exit code (*exec.ExitError, wrapped or not).
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

// domains returns the domains in which the service may be loaded, the preferred one first. The last one holds the
// record of disabled services.
func (l *launchd) domains() []string {
	if l.system {
		return []string{"system"}
	}
	return []string{fmt.Sprintf("gui/%d", l.uid), fmt.Sprintf("user/%d", l.uid)}
}

// permitted returns an error if the caller lacks a precondition for a change.
func (l *launchd) permitted() error {
	switch {
	case l.system && l.uid != 0:
		return &Lack{"the machine's service needs root", "run it with sudo"}
	case !l.system && l.uid == 0:
		return &Lack{"root has no session of its own for a user's service", "run it without sudo, or with --system"}
	}
	return nil
}

// session returns the domain to start the service in.
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

// sessionType returns the session type that the plist names for the domain.
func (l *launchd) sessionType(domain string) string {
	switch domain {
	case "system":
		return ""
	case fmt.Sprintf("user/%d", l.uid):
		return inBackground
	}
	return onDesktop
}

// Render returns the plist for the current session; without a session, for the desktop.
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // rendering is allowed before the program exists
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

// before is the state before a change.
type before struct {
	job      loadedJob
	text     string
	there    bool // the plist exists
	disabled bool
}

// foreign reports whether the plist under our label was not written by steward.
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

// Install writes the plist and loads it into launchd.
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
		out.Notes = append(out.Notes, "no user is logged in at the screen: steward runs without popups and voice; install it again from the desktop to have them")
	}
	text := files[0].Text
	if was.text == text && was.job.domain == domain && was.job.program == spec.Binary && was.job.state == "running" {
		if out.Changed = was.disabled; was.disabled { // running now, but disabled for the next login
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

// replace installs the new plist, or restores the previous state. It unloads the old service before it replaces the
// plist: a crash in between must not leave a new file that looks as if it were loaded.
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

// restore has its own timeout, because it is needed even when the caller's time is up.
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
			from = was.job.path // it may have been loaded from another path
		}
		err = both(err, l.bootstrap(ctx, was.job.domain, from))
	}
	if was.disabled { // after bootstrap, which needs the service enabled
		_, e := l.ctl(ctx, "disable", l.domains()[0]+"/"+Label)
		err = both(err, e)
	}
	return err
}

func (l *launchd) write(text string) error {
	if old, err := os.ReadFile(l.plist()); err == nil && string(old) == text {
		return nil // nothing to write: a read-only folder must not make the rollback fail
	}
	return doing("write the plist", write(File{Path: l.plist(), Text: text}))
}

// Uninstall does not change launchd's record of disabled services, because it belongs to the operator.
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

// known returns the current state of an installed service; ErrNotInstalled if none exists.
func (l *launchd) known(ctx context.Context) (loadedJob, error) {
	if err := l.permitted(); err != nil {
		return loadedJob{}, err
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

// Start loads the service, or starts it if it is loaded and has ended.
func (l *launchd) Start(ctx context.Context) error {
	j, err := l.known(ctx)
	if err != nil {
		return doing("start the service", err)
	}
	return doing("start the service", l.start(ctx, j))
}

func (l *launchd) start(ctx context.Context, j loadedJob) error {
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

// Stop unloads the service until the next login or boot: if it only killed the process, KeepAlive might restart it.
func (l *launchd) Stop(ctx context.Context) error {
	if _, err := l.known(ctx); err != nil {
		return doing("stop the service", err)
	}
	return doing("stop the service", l.bootout(ctx))
}

// Restart ends the process with SIGTERM before launchd starts the next one: kickstart -k alone kills it immediately,
// and its holds would remain. If the process ignores SIGTERM, kickstart -k kills it in the end.
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

// terminate ends the process and returns the job as it is afterwards.
func (l *launchd) terminate(ctx context.Context, old loadedJob) (now loadedJob, err error) {
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

// seeLog returns the suffix of an error about the process itself.
func (l *launchd) seeLog() string {
	return "; see its log, or: launchctl print " + l.domains()[0] + "/" + Label
}

// Status returns launchd's view of the service.
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
