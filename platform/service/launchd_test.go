package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mac simulates a Mac: a home, and a launchctl stub that keeps its state in a folder.
type mac struct {
	*testing.T
	*launchd
	stub string
	spec Spec
}

const lives, fails = "#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 3\n"

// newMac returns a mac; sessions are the existing domains, the user's uid is 501.
func newMac(t *testing.T, system bool, sessions ...string) *mac {
	script, err := filepath.Abs("testdata/launchctl.sh")
	if err != nil {
		t.Fatal(err)
	}
	m := &mac{T: t, stub: t.TempDir()}
	home := filepath.Join(t.TempDir(), "je sse & <co> \"q\" 'a'")
	m.spec = specFor(home)
	m.put("sessions", strings.Join(sessions, "\n")+"\n")
	m.write(m.spec.Binary, lives)
	uid := 501
	if system {
		uid = 0
	}
	m.launchd = newLaunchd(system, uid, home, func(ctx context.Context, argv ...string) (string, error) {
		if argv[0] != "launchctl" {
			return "", fmt.Errorf("%s is not stubbed", argv[0])
		}
		c := exec.CommandContext(ctx, "sh", append([]string{script}, argv[1:]...)...)
		c.Env = append(os.Environ(), "STUB="+m.stub)
		out, err := c.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%v: %w", argv, err)
		}
		return string(out), err
	})
	m.daemons = filepath.Join(t.TempDir(), "LaunchDaemons")
	m.pace, m.steady, m.settle, m.patience = time.Millisecond, 20*time.Millisecond, 3*time.Second, 3*time.Second
	return m
}

func (m *mac) write(path, text string) {
	m.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.Fatal(err)
	}
}

func (m *mac) put(name, text string) { m.Helper(); m.write(filepath.Join(m.stub, name), text) }

func (m *mac) drop(name string) { _ = os.Remove(filepath.Join(m.stub, name)) }

// changes returns the launchctl calls since the last call that change something; it skips print and print-disabled.
func (m *mac) changes() (all []string) {
	m.Helper()
	text, _ := os.ReadFile(filepath.Join(m.stub, "calls"))
	m.drop("calls")
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "print") {
			line = strings.ReplaceAll(line, m.plist(), "PLIST")
			all = append(all, strings.TrimSpace(strings.ReplaceAll(line, Label, "L")))
		}
	}
	return all
}

func (m *mac) wantChanges(want ...string) {
	m.Helper()
	if got := m.changes(); !slices.Equal(got, want) {
		m.Errorf("launchctl was asked for\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (m *mac) install() (Outcome, error) { return m.Install(m.Context(), m.spec, nil) }

func (m *mac) installed() Outcome {
	m.Helper()
	out, err := m.install()
	if err != nil {
		m.Fatal(err)
	}
	m.changes()
	return out
}

func (m *mac) status() Status {
	m.Helper()
	s, err := m.Status(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	return s
}

func (m *mac) file() string {
	text, _ := os.ReadFile(m.plist())
	return string(text)
}

func (m *mac) wantError(err error, words ...string) {
	m.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			m.Errorf("want an error with %q, got: %v", w, err)
		}
	}
}

func TestLaunchdInstallsOnTheDesktop(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	out, err := m.install()
	if err != nil || !out.Changed || !slices.Equal(out.Wrote, []string{m.plist()}) || out.Unit != m.plist() || out.Notes != nil {
		t.Fatalf("install: %+v, %v", out, err)
	}
	m.wantChanges("enable gui/501/L", "bootstrap gui/501 PLIST")
	if st, err := os.Stat(m.plist()); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("the plist: %v, %v", st, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(m.plist()), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	files, err := m.Render(m.spec)
	if err != nil || len(files) != 1 || files[0].Path != m.plist() || files[0].Text != m.file() || !strings.Contains(files[0].Text, onDesktop) {
		t.Errorf("Render gives another file than Install writes: %v, %v", err, files)
	}
	s := m.status()
	if s.State != "active" || !s.Installed || !s.Enabled || s.PID < 1000 || s.Binary != m.spec.Binary || s.Manager != "launchd (user)" || s.Unit != m.plist() || s.Restarts != 0 {
		t.Errorf("status: %+v", s)
	}
	out, err = m.Install(t.Context(), m.spec, func() { t.Error("hand-over without a change") })
	if err != nil || out.Changed || out.Wrote != nil {
		t.Errorf("second install: %+v, %v", out, err)
	}
	m.wantChanges()
	m.put("disabled", "")
	if out, err := m.install(); err != nil || !out.Changed || !m.status().Enabled {
		t.Errorf("install of a disabled one: %+v, %v", out, err)
	}
	m.wantChanges("enable gui/501/L")
}

func TestLaunchdInstallsWithoutAScreen(t *testing.T) {
	m := newMac(t, false, "user/501")
	out, err := m.install()
	if err != nil || !out.Changed || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "without popups") {
		t.Fatalf("install: %+v, %v", out, err)
	}
	m.wantChanges("enable user/501/L", "bootstrap user/501 PLIST")

	// Installed later from the desktop: the service moves there and never runs in both domains.
	m.put("sessions", "gui/501\nuser/501\n")
	if out := m.installed(); !out.Changed || out.Notes != nil || !strings.Contains(m.file(), "<string>Aqua</string>") {
		t.Errorf("install from the desktop: %+v", out)
	}
	if j, err := m.print(t.Context(), "user/501"); err != nil || j.loaded() {
		t.Errorf("it is still in the background: %+v, %v", j, err)
	}
	if j, err := m.print(t.Context(), "gui/501"); err != nil || j.pid == 0 {
		t.Errorf("it does not run on the desktop: %+v, %v", j, err)
	}
}

func TestLaunchdInstallsForTheMachine(t *testing.T) {
	m := newMac(t, true, "system")
	out, err := m.install()
	if err != nil || !out.Changed || out.Unit != filepath.Join(m.daemons, "com.livhana.steward.plist") {
		t.Fatalf("install: %+v, %v", out, err)
	}
	m.wantChanges("enable system/L", "bootstrap system PLIST")
	if s := m.status(); s.Manager != "launchd (system)" || s.State != "active" {
		t.Errorf("status: %+v", s)
	}
	if got := newLaunchd(true, 0, "/", nil).plist(); filepath.ToSlash(got) != "/Library/LaunchDaemons/com.livhana.steward.plist" {
		t.Errorf("the daemon's plist is %s", got)
	}
}

func TestLaunchdSaysWhatIsLacking(t *testing.T) {
	var lack *Lack
	m := newMac(t, false)
	_, err := m.install()
	m.wantError(err, "launchd has no session for user 501", "log in on the Mac or by ssh")
	if !errors.As(err, &lack) {
		t.Errorf("no Lack: %v", err)
	}
	if files, err := m.Render(m.spec); err != nil || !strings.Contains(files[0].Text, onDesktop) {
		t.Errorf("Render without a session: %v", err)
	}
	m = newMac(t, true, "system")
	m.uid = 501
	for what, call := range map[string]func() error{
		"install":   func() error { _, err := m.install(); return err },
		"uninstall": func() error { _, err := m.Uninstall(t.Context()); return err },
		"start":     func() error { return m.Start(t.Context()) },
		"stop":      func() error { return m.Stop(t.Context()) },
		"restart":   func() error { return m.Restart(t.Context()) },
	} {
		if err := call(); !errors.As(err, &lack) || !strings.Contains(err.Error(), "needs root; run it with sudo") {
			t.Errorf("%s: want a Lack of root, got %v", what, err)
		}
	}
	m = newMac(t, false, "user/0")
	m.uid = 0
	if _, err := m.install(); !errors.As(err, &lack) || !strings.Contains(err.Error(), "--system") {
		t.Errorf("root's own: %v", err)
	}
	m = newMac(t, false, "gui/501", "user/501")
	for what, call := range map[string]func() error{
		"uninstall": func() error { _, err := m.Uninstall(t.Context()); return err },
		"start":     func() error { return m.Start(t.Context()) },
		"stop":      func() error { return m.Stop(t.Context()) },
		"restart":   func() error { return m.Restart(t.Context()) },
	} {
		if err := call(); !errors.Is(err, ErrNotInstalled) {
			t.Errorf("%s: want ErrNotInstalled, got %v", what, err)
		}
	}
	m.wantChanges()
	if s := m.status(); s.Installed || s.State != "inactive" || s.Unit != "" {
		t.Errorf("status: %+v", s)
	}
}

func TestLaunchdUpgrades(t *testing.T) {
	upgrades := map[string]func(m *mac){
		"another definition":                 func(m *mac) { m.spec.Args = []string{"--config", "/c"} },
		"another program":                    func(m *mac) { m.spec.Binary += "2"; m.write(m.spec.Binary, lives) },
		"a newer program under the old name": func(m *mac) { m.write(m.spec.Binary, lives+"# 2\n") },
	}
	for name, change := range upgrades {
		t.Run(name, func(t *testing.T) {
			m := newMac(t, false, "gui/501", "user/501")
			m.installed()
			old := m.status().PID
			// bootout is asynchronous, and launchd removes the service slowly.
			m.put("lag", "3\n")
			m.put("slow", "")
			m.put("eio", "2\n")
			change(m)
			handed := false
			out, err := m.Install(t.Context(), m.spec, func() {
				handed = true
				if s := m.status(); s.PID != old {
					t.Errorf("handed over after the end: %+v", s)
				}
			})
			if err != nil || !out.Changed || len(out.Wrote) != 1 || !handed {
				t.Fatalf("install: %+v, %v, handed over %v", out, err, handed)
			}
			m.wantChanges("bootout gui/501/L", "enable gui/501/L", "bootstrap gui/501 PLIST", "bootstrap gui/501 PLIST", "bootstrap gui/501 PLIST")
			if s := m.status(); s.State != "active" || s.PID == old || s.Binary != m.spec.Binary {
				t.Errorf("status: %+v", s)
			}
		})
	}
}

func TestLaunchdStartsWhatHasEnded(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.wantChanges("bootout gui/501/L")
	if s := m.status(); s.State != "inactive" || !s.Installed || !s.Enabled || s.Binary != m.spec.Binary {
		t.Errorf("stopped: %+v", s)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Errorf("stop again: %v", err)
	}
	m.wantChanges()
	handOver := func() { t.Error("hand-over of nothing") }
	if out, err := m.Install(t.Context(), m.spec, handOver); err != nil || !out.Changed || out.Wrote != nil {
		t.Errorf("install of a stopped one: %+v, %v", out, err)
	}
	m.wantChanges("enable gui/501/L", "bootstrap gui/501 PLIST")
}

func TestLaunchdStarts(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	if err := m.Start(t.Context()); err != nil {
		t.Error(err)
	}
	m.wantChanges() // already running
	if err := m.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	m.put("disabled", "") // disabled earlier; an explicit start overrides that
	m.changes()
	if err := m.Start(t.Context()); err != nil {
		t.Error(err)
	}
	m.wantChanges("enable gui/501/L", "bootstrap gui/501 PLIST")
	if _, err := m.ctl(t.Context(), "kill", "SIGTERM", "gui/501/"+Label); err != nil {
		t.Fatal(err)
	}
	if s := m.status(); s.State != "inactive" || s.PID != 0 || !strings.Contains(s.Detail, "last exit code 0") {
		t.Errorf("ended well: %+v", s)
	}
	m.changes()
	if err := m.Start(t.Context()); err != nil {
		t.Error(err)
	}
	m.wantChanges("kickstart gui/501/L")
	m.write(m.spec.Binary, fails)
	_ = m.Stop(t.Context())
	m.wantError(m.Start(t.Context()), "start the service: it started and ended: last exit code 3; see its log")
	if s := m.status(); s.State != "activating" || s.Detail != "spawn scheduled, last exit code 3" {
		t.Errorf("fails: %+v", s)
	}
}

func TestLaunchdRestarts(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	old := m.status().PID
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.wantChanges("kill SIGTERM gui/501/L", "kickstart gui/501/L")
	if s := m.status(); s.PID == old || s.State != "active" || s.Restarts != 1 {
		t.Errorf("restarted: %+v", s)
	}
	m.put("stubborn", "")
	m.patience = time.Second
	m.changes()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.wantChanges("kill SIGTERM gui/501/L", "kickstart -k gui/501/L")
	_ = m.Stop(t.Context())
	m.changes()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.wantChanges("enable gui/501/L", "bootstrap gui/501 PLIST")
}

func TestLaunchdUninstalls(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	m.put("lag", "2\n")
	out, err := m.Uninstall(t.Context())
	if err != nil || !out.Changed || !slices.Equal(out.Removed, []string{m.plist()}) {
		t.Errorf("uninstall: %+v, %v", out, err)
	}
	m.wantChanges("bootout gui/501/L")
	if _, err := os.Stat(m.plist()); !os.IsNotExist(err) {
		t.Errorf("the plist: %v", err)
	}
	if s := m.status(); s.Installed || s.PID != 0 {
		t.Errorf("status: %+v", s)
	}
	// Loaded, but without a plist.
	m.drop("lag")
	m.installed()
	_ = os.Remove(m.plist())
	if s := m.status(); !s.Installed || s.Unit != "" || s.State != "active" || s.Enabled {
		t.Errorf("status without a plist: %+v", s)
	}
	if out, err := m.Uninstall(t.Context()); err != nil || !out.Changed || out.Removed != nil {
		t.Errorf("uninstall without a plist: %+v, %v", out, err)
	}
}

func TestLaunchdRollsBack(t *testing.T) {
	// Not installed before: not installed after the rollback.
	m := newMac(t, false, "gui/501", "user/501")
	m.write(m.spec.Binary, fails)
	_, err := m.install()
	m.wantError(err, "install the service: it started and ended: last exit code 3", "what was there before is there again")
	m.wantChanges("enable gui/501/L", "bootstrap gui/501 PLIST", "bootout gui/501/L")
	if s := m.status(); s.Installed {
		t.Errorf("status: %+v", s)
	}

	// An older version ran: it runs again from the old file.
	m.write(m.spec.Binary, lives)
	m.installed()
	text, good := m.file(), m.spec.Binary
	m.spec.Binary += "-bad"
	m.write(m.spec.Binary, fails)
	_, err = m.install()
	m.wantError(err, "last exit code 3", "there again")
	m.wantChanges("bootout gui/501/L", "enable gui/501/L", "bootstrap gui/501 PLIST", "bootout gui/501/L", "enable gui/501/L", "bootstrap gui/501 PLIST")
	if s := m.status(); s.State != "active" || s.Binary != good || m.file() != text {
		t.Errorf("status: %+v", s)
	}

	// Stopped and disabled before: the same after the rollback.
	_ = m.Stop(t.Context())
	m.put("disabled", "")
	m.changes()
	_, err = m.install()
	m.wantError(err, "last exit code 3")
	m.wantChanges("enable gui/501/L", "bootstrap gui/501 PLIST", "bootout gui/501/L", "disable gui/501/L")
	if s := m.status(); s.State != "inactive" || s.Enabled || m.file() != text {
		t.Errorf("status: %+v", s)
	}
}

// TestLaunchdRollsBackWhereItMayNotWrite: an unwritable folder is detected only after the old service has been
// unloaded; the rollback loads it again.
func TestLaunchdRollsBackWhereItMayNotWrite(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("skipped: root may write everywhere")
	}
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	text := m.file()
	m.spec.Args = []string{"-v"}
	dir := filepath.Dir(m.plist())
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o755) }()
	_, err := m.install()
	m.wantError(err, "write the plist", "permission denied", "there again")
	if s := m.status(); s.State != "active" || m.file() != text {
		t.Errorf("status: %+v", s)
	}
}

// TestLaunchdWaitsUntilItLasts: a process that ends soon after its start does not count as started.
func TestLaunchdWaitsUntilItLasts(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.put("brief", "1\n")
	_, err := m.install()
	m.wantError(err, "it started and ended: last exit code 1")
	if s := m.status(); s.Installed {
		t.Errorf("status: %+v", s)
	}
}

// TestLaunchdReplacesAnOlderLoad: the new file is already in place, but launchd still runs the job it loaded before.
func TestLaunchdReplacesAnOlderLoad(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	m.spec.Binary += "2"
	m.write(m.spec.Binary, lives)
	files, err := m.Render(m.spec)
	if err != nil {
		t.Fatal(err)
	}
	m.write(m.plist(), files[0].Text)
	if out, err := m.install(); err != nil || !out.Changed || out.Wrote != nil || m.status().Binary != m.spec.Binary {
		t.Errorf("install: %+v, %v; %+v", out, err, m.status())
	}
}

func TestLaunchdKeepsItsWords(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	text := m.file()
	m.settle = 50 * time.Millisecond
	m.put("eio", "100000\n")
	m.spec.Args = []string{"-v"}
	_, err := m.install()
	m.wantError(err, "after 50ms: launchctl bootstrap gui/501", "Bootstrap failed: 5: Input/output error", "roll back")
	if strings.Contains(err.Error(), "as root") || strings.Contains(err.Error(), "again") {
		t.Errorf("bad advice, or a promise that was not kept: %v", err)
	}
	if m.file() != text {
		t.Error("the old plist is not there again")
	}
	// The next install repairs it.
	m.drop("eio")
	if m.installed(); m.status().State != "active" {
		t.Errorf("status: %+v", m.status())
	}
}

func TestLaunchdIsBounded(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.installed()
	m.put("lag", "100000\n")
	m.patience = 100 * time.Millisecond
	m.wantError(m.Stop(t.Context()), "stop the service: wait for the end of gui/501/com.livhana.steward: after 100ms", "SIGTERMed")
	m.patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := m.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "killed") {
		t.Errorf("want the caller's bound, got %v", err)
	}
	// Cancelling the caller's context does not prevent the rollback.
	m = newMac(t, false, "gui/501", "user/501")
	m.installed()
	text := m.file()
	m.spec.Args = []string{"-v"}
	ctx, cancel = context.WithCancel(t.Context())
	launchctl := m.run
	m.run = func(c context.Context, argv ...string) (string, error) {
		if argv[1] == "bootstrap" {
			cancel()
		}
		return launchctl(c, argv...)
	}
	if _, err := m.Install(ctx, m.spec, nil); err == nil {
		t.Error("installed after the caller's end")
	}
	if s := m.status(); s.State != "active" || m.file() != text {
		t.Errorf("status: %+v", s)
	}
}

func TestLaunchdLeavesOthersAlone(t *testing.T) {
	m := newMac(t, false, "gui/501", "user/501")
	m.write(m.plist(), "<plist><dict/></plist>")
	_, err := m.install()
	m.wantError(err, "was not written by steward; move it away first")
	_, err = m.Uninstall(t.Context())
	m.wantError(err, "was not written by steward; remove it by hand")
	if m.wantChanges(); m.file() != "<plist><dict/></plist>" {
		t.Error("changed")
	}
	m = newMac(t, false, "gui/501", "user/501")
	m.spec.Binary = t.TempDir()
	_, err = m.install()
	m.wantError(err, "is not a program")
	m.spec.Binary = "/nowhere/steward"
	_, err = m.install()
	m.wantError(err, "/nowhere/steward is not a program")
	if files, err := m.Render(m.spec); err != nil || !strings.Contains(files[0].Text, "not there yet") {
		t.Errorf("Render before the program is there: %v", err)
	}
	m.wantChanges()
}

func TestLaunchctlPrintIsRead(t *testing.T) {
	out := "gui/501/com.livhana.steward = {\n\tactive count = 4\n\tpath = /p\n\tstate = spawn scheduled\n\n\tprogram = /b = c\n\targuments = {\n\t\tstate = running\n\t\tpid = 9\n\t}\n\truns = 4\n" +
		"\tlast exit code = 78: EX_CONFIG\n\tlast terminating signal = Killed: 9\n\tendpoints = {\n\t\t\"x\" = {\n\t\t\tstate = active\n\t\t}\n\t}\n\tjob state = exited\n}\n"
	want := loadedJob{state: "spawn scheduled", program: "/b = c", path: "/p", exit: "78: EX_CONFIG", signal: "Killed: 9", runs: 4}
	if got := decodePrint(out); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := decodePrint("a = {\n\tlast exit code = (never exited)\n\tpid = 123\n"); got != (loadedJob{pid: 123}) {
		t.Errorf("got %+v", got)
	}
	for state, want := range map[string]string{"running": "active", "not running": "failed", "spawn scheduled": "activating", "SIGTERMed": "inactive", "": "unknown"} {
		s := Status{State: "inactive"}
		if (loadedJob{state: state, exit: "1"}).fill(&s); s.State != want {
			t.Errorf("%q is %s, want %s", state, s.State, want)
		}
	}
}
