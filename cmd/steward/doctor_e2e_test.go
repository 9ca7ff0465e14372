package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
)

// doctor runs it, and gives what it prints and its exit code.
func (r *rig) doctor(c *exec.Cmd) (string, int) {
	r.Helper()
	begin := time.Now()
	out, err := c.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	// 5 s are promised; the rest is for a machine that is busy with other tests.
	if took := time.Since(begin); took > 9*time.Second {
		r.Errorf("doctor took %s", took)
	}
	return string(out), c.ProcessState.ExitCode()
}

func (r *rig) says(out string, patterns ...string) {
	r.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(out) {
			r.Errorf("doctor does not say %q:\n%s", p, out)
		}
	}
}

// TestDoctorWhereEverythingHangs: a configuration that is a pipe, a daemon and a session bus that accept and never
// answer, a boot script that is a pipe. All else is examined all the same.
func TestDoctorWhereEverythingHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	bus := filepath.Join(filepath.Dir(r.socket), "bus")
	for _, path := range []string{r.socket, bus} {
		l, err := net.Listen("unix", path) // the kernel accepts, and nobody reads
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	r.env = append(r.env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus)
	out, code := r.doctor(r.command("steward", "doctor"))
	r.says(out, "fail  socket: a process listens on .* and does not answer", "warn  desktop: popups do not reach the desktop: .*no answer", "ok    state folder", "1 failure,")
	if code != cli.ExitFailed {
		t.Errorf("exit %d, want %d", code, cli.ExitFailed)
	}
	if err := errors.Join(os.Remove(r.at("config.toml")), syscall.Mkfifo(r.at("config.toml"), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, _ = r.doctor(r.command("steward", "doctor"))
	r.says(out, "fail  problem: no answer within .*is it a pipe", "fail  socket: a process listens", "warn  desktop: ", "ok    open files")
}

// TestDoctorOfAnotherUser: root may write everywhere, so a user without any right looks at a folder of root's.
func TestDoctorOfAnotherUser(t *testing.T) {
	r := newRig(t, "[[project]]\npath = \"p\"\n[[project]]\npath = \"shut\"\n")
	for name, mode := range map[string]fs.FileMode{"p": 0o555, "shut": 0o000, ".": 0o755, "..": 0o755} {
		if err := errors.Join(os.MkdirAll(r.at(name), 0o755), os.Chmod(r.at(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	program := r.at("steward")
	path, err := exec.LookPath("steward")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(program, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := r.command(program, "doctor")
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, code := r.doctor(c)
	r.says(out, "fail  p: .* cannot be written: permission denied", "→ make it writable", "fail  shut: .* cannot be read: permission denied")
	if code != cli.ExitFailed {
		t.Errorf("exit %d, want %d", code, cli.ExitFailed)
	}
}
