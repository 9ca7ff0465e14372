// Package packaging_test installs steward where it is to live: in a real systemd, from a real package.
package packaging_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// machine is a running systemd in namespaces of its own, with an ordinary user jesse (see ci/machine.sh). It shares the
// kernel with its host and nothing else, and is gone when the test is, however that one ends.
type machine struct {
	t      *testing.T
	pid    string   // its first process, as the host sees it
	files  *os.Root // its root folder; a link in it does not lead out to the host's files
	cgroup string
}

// jesseID is the uid and the gid of the machine's ordinary user.
const jesseID = 1000

// result is how a command inside ended.
type result struct {
	out, err string
	code     int
}

// all is what a person would have seen.
func (r result) all() string { return r.out + r.err }

// boot starts a machine for one test and waits until it is up. Where there can be none, the test is skipped.
func boot(t *testing.T) *machine {
	t.Helper()
	tree := whyNot(t)
	dir, err := os.MkdirTemp("", "machine")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, cgroup: filepath.Join(tree, "steward-"+filepath.Base(dir))}
	m.start(dir)
	m.enter()
	t.Cleanup(func() {
		if t.Failed() {
			m.tell()
		}
	})
	m.eventually("the machine is up", 20*time.Second, func() (string, bool) {
		r := m.root("systemctl", "is-system-running")
		return r.all(), strings.TrimSpace(r.out) == "running"
	})
	return m
}

// whyNot skips the test, with the reason, where no machine can be had. It gives the cgroup tree to put one into.
func whyNot(t *testing.T) (tree string) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: short, and this boots a machine")
	}
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can boot a machine in namespaces")
	}
	for _, file := range []string{"/lib/systemd/systemd", "/usr/bin/loginctl", "/usr/bin/dbus-daemon", "/usr/lib/systemd/user/dbus.socket", "/usr/sbin/pivot_root"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("skipped: %s is missing; packaging/ci/test-deps.sh installs what it needs", file)
		}
	}
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: no namespaces here: %v: %s", err, bytes.TrimSpace(out))
	}
	for _, tree := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(tree + "/cgroup.controllers"); err != nil {
			continue
		}
		probe := filepath.Join(tree, "steward-probe-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(probe, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Skipf("skipped: cgroups cannot be made here: %v", err)
		}
		_ = os.Remove(probe)
		return tree
	}
	t.Skip("skipped: no cgroup v2 tree is mounted here")
	return ""
}

// start runs ci/machine.sh. Closing its standard input, which the end of this process does too, ends the machine.
func (m *machine) start(dir string) {
	m.t.Helper()
	cmd := exec.Command("sh", "ci/machine.sh", dir, m.cgroup)
	var said safeBuffer
	cmd.Stderr = &said
	hold, err := cmd.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { m.powerOff(cmd, hold, dir, &said) })
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, ok := strings.CutPrefix(strings.TrimSpace(line), "pid ")
	if !ok {
		m.t.Fatalf("boot a machine: %q, %v: %s", line, err, said.String())
	}
	m.pid = pid
}

// enter opens the machine's files, and makes sure that they are not its host's: in the first moments the first process
// still stands in the host's root folder.
func (m *machine) enter() {
	m.t.Helper()
	host, err := os.Stat("/")
	if err != nil {
		m.t.Fatal(err)
	}
	m.eventually("the machine has a root folder of its own", 10*time.Second, func() (string, bool) {
		root, err := os.OpenRoot("/proc/" + m.pid + "/root")
		if err != nil {
			return err.Error(), false
		}
		own, err := root.Stat(".")
		if name, _ := root.ReadFile("etc/hostname"); err != nil || os.SameFile(own, host) || string(name) != "machine\n" {
			root.Close()
			return "the host's", false
		}
		m.files = root
		return "", true
	})
	m.t.Cleanup(func() { m.files.Close() })
}

// powerOff ends the machine and checks that nothing of it is left.
func (m *machine) powerOff(cmd *exec.Cmd, hold io.Closer, dir string, said *safeBuffer) {
	hold.Close()
	dead := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	dead.Stop()
	if text := said.String(); text != "" {
		m.t.Errorf("the machine said: %s", text)
	}
	for _, left := range []string{dir, m.cgroup, "/proc/" + cmp.Or(m.pid, "none")} {
		m.eventually(left+" is gone", 5*time.Second, func() (string, bool) {
			_, err := os.Stat(left)
			return left, err != nil
		})
	}
}

// root runs a command inside as root.
func (m *machine) root(args ...string) result {
	m.t.Helper()
	return m.run("/root", []string{"HOME=/root"}, nil, args)
}

// jesse runs a command inside as jesse, in the home folder, with as little environment as a service has of a session.
func (m *machine) jesse(args ...string) result {
	m.t.Helper()
	drop := []string{"setpriv", "--reuid", "1000", "--regid", "1000", "--init-groups", "--"}
	return m.run("/home/jesse", []string{"HOME=/home/jesse", "XDG_RUNTIME_DIR=/run/user/1000"}, drop, args)
}

func (m *machine) run(dir string, env, prefix, args []string) result {
	m.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 90*time.Second)
	defer stop()
	line := []string{"-t", m.pid, "-m", "-p", "-u", "-i", "-n", "-C", "--", "env", "-i", "-C", dir,
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8"}
	cmd := exec.CommandContext(ctx, "nsenter", append(append(append(line, env...), prefix...), args...)...)
	// The command may leave children that keep the pipes open, and nsenter a child when it is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil {
		m.t.Fatalf("%q is not done after 90 s: %s%s", args, out.String(), errOut.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		m.t.Fatalf("run %q: %v", args, err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// must insists that a command succeeds.
func (m *machine) must(r result) result {
	m.t.Helper()
	if r.code != 0 {
		m.t.Fatalf("exit %d: %s", r.code, r.all())
	}
	return r
}

// inside is a path for m.files.
func inside(path string) string { return cmp.Or(strings.TrimPrefix(path, "/"), ".") }

// write puts a file in place, by rename, for its owner; its folders are made, and are the owner's too.
func (m *machine) write(path, text string, owner int) {
	m.t.Helper()
	m.put(path, []byte(text), 0o644, owner)
}

// install puts a program of the host in place.
func (m *machine) install(hostPath, path string) {
	m.t.Helper()
	program, err := os.ReadFile(hostPath)
	if err != nil {
		m.t.Fatal(err)
	}
	m.put(path, program, 0o755, 0)
}

func (m *machine) put(path string, data []byte, mode os.FileMode, owner int) {
	m.t.Helper()
	m.folder(filepath.Dir(path), owner)
	temporary := inside(path) + ".new"
	for _, err := range []error{
		m.files.WriteFile(temporary, data, mode), m.files.Chmod(temporary, mode), m.files.Chown(temporary, owner, owner), m.files.Rename(temporary, inside(path)),
	} {
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

// folder makes a folder and what is missing above it.
func (m *machine) folder(path string, owner int) {
	m.t.Helper()
	if _, err := m.files.Stat(inside(path)); err == nil {
		return
	}
	m.folder(filepath.Dir(path), owner)
	if err := m.files.Mkdir(inside(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := m.files.Chown(inside(path), owner, owner); err != nil {
		m.t.Fatal(err)
	}
}

// read gives a file's text; "" if it does not exist.
func (m *machine) read(path string) string {
	m.t.Helper()
	data, err := m.files.ReadFile(inside(path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return string(data)
}

// has reports whether something is there, be it a link to nowhere.
func (m *machine) has(path string) bool {
	_, err := m.files.Lstat(inside(path))
	return err == nil
}

// eventually waits until ok; what it saw last is told when it never was.
func (m *machine) eventually(what string, within time.Duration, ok func() (saw string, done bool)) {
	m.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		saw, done := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: not within %v; last seen: %s", what, within, saw)
		}
	}
}

// linger gives jesse a user manager that needs no session, and waits until it is up.
func (m *machine) linger() {
	m.t.Helper()
	m.must(m.root("loginctl", "enable-linger", "jesse"))
	m.eventually("jesse's user manager is up", 20*time.Second, func() (string, bool) {
		r := m.jesse("systemctl", "--user", "is-system-running")
		return r.all(), strings.TrimSpace(r.out) == "running"
	})
}

// tell prints what the units of a failed test said.
func (m *machine) tell() {
	for _, line := range [][]string{
		{"journalctl", "--no-pager", "-o", "short-precise", "-n", "150", "-u", "steward", "-u", "steward-failed"},
		{"journalctl", "--no-pager", "-o", "short-precise", "-n", "150", "_SYSTEMD_USER_UNIT=steward.service", "+", "USER_UNIT=steward.service", "+", "USER_UNIT=steward-failed.service"},
		{"journalctl", "--no-pager", "-o", "short-precise", "-n", "30", "-p", "warning"},
	} {
		m.t.Logf("%s\n%s", strings.Join(line, " "), m.root(line...).all())
	}
}

// safeBuffer may be read while a process still writes.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// The machine is a machine: users log in, services run, the journal keeps what they say; and it cannot harm its host.
func TestMachine(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.linger()
	if r := m.jesse("id", "-un"); r.out != "jesse\n" {
		t.Errorf("id: %q", r.all())
	}
	// The journal asks the kernel which user unit a line came from: the process must live until it has asked.
	m.must(m.jesse("systemd-run", "--user", "--unit", "steward", "sh", "-c", "echo hello $HOME; exec sleep 600"))
	m.eventually("the user's journal", 5*time.Second, func() (string, bool) {
		r := m.jesse("journalctl", "--user-unit", "steward", "-o", "cat")
		return r.all(), strings.Contains(r.out, "hello /home/jesse")
	})
	m.must(m.jesse("systemctl", "--user", "stop", "steward"))
	m.must(m.root("systemd-run", "--unit", "steward", "--wait", "-p", "User=jesse", "-p", "ProtectSystem=strict", "-p", "PrivateTmp=yes",
		"-p", "ProtectKernelTunables=yes", "-p", "DynamicUser=no", "sh", "-c", "echo machine $(id -u); test ! -w /etc"))
	if r := m.root("journalctl", "-u", "steward", "-o", "cat"); !strings.Contains(r.out, "machine 1000") {
		t.Errorf("the journal: %q", r.all())
	}
	for _, forbidden := range []string{"/proc/sys/kernel/printk", "/proc/sys/vm/swappiness", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		if r := m.root("sh", "-c", "[ ! -e $1 ] || cat $1 >$1", "sh", forbidden); r.code == 0 && m.has(forbidden) {
			t.Errorf("%s can be written", forbidden)
		}
	}
	if r := m.root("systemctl", "list-units", "--failed", "--plain", "--no-legend"); r.all() != "" {
		t.Errorf("failed units: %s", r.all())
	}
	if r := m.root("cat", "/proc/net/dev"); strings.Count(r.out, ":") != 1 || !strings.Contains(r.out, "lo:") {
		t.Errorf("the machine has a network: %s", r.all())
	}
}

// A machine whose test is killed goes too, with its processes, mounts and cgroup.
func TestMachineEndsWithItsTest(t *testing.T) {
	t.Parallel()
	tree := whyNot(t)
	dir, err := os.MkdirTemp("", "machine")
	if err != nil {
		t.Fatal(err)
	}
	cgroup := filepath.Join(tree, "steward-"+filepath.Base(dir))
	// All are killed at once, so that nobody is left to clean up.
	cmd := exec.Command("sh", "-c", `sleep 1000 | sh ci/machine.sh "$0" "$1"`, dir, cgroup)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	t.Cleanup(kill)
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, err := fmt.Sscanf(line, "pid %d\n", &pid); err != nil {
		t.Fatalf("boot a machine: %q: %v", line, err)
	}
	m := &machine{t: t}
	m.eventually("systemd runs in there, in a session of its own", 10*time.Second, func() (string, bool) {
		_, err := os.Stat(cgroup + "/system.slice/systemd-journald.service")
		return fmt.Sprint(err), err == nil
	})
	kill()
	m.eventually("the machine is gone", 10*time.Second, func() (string, bool) {
		_, err := os.Stat("/proc/" + strconv.Itoa(pid))
		return "process " + strconv.Itoa(pid), err != nil
	})
	// Nobody was left to take these away. All processes are gone when the cgroup can be removed.
	m.eventually("the machine's cgroup is empty", 5*time.Second, func() (string, bool) {
		_ = exec.Command("find", cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
		_, err := os.Stat(cgroup)
		return cgroup, err != nil
	})
	_ = os.Remove(dir)
}
