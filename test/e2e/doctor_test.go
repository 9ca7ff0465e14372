package e2e

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

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/cmd/steward/cli"
)

// runDoctor runs it, and gives what it prints and its exit code.
func runDoctor(r *rig.Rig, c *exec.Cmd) (string, int) {
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

func wantLines(r *rig.Rig, out string, patterns ...string) {
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
	r := rig.New(t, "")
	bus := filepath.Join(filepath.Dir(r.Socket), "bus")
	for _, path := range []string{r.Socket, bus} {
		l, err := net.Listen("unix", path) // the kernel accepts, and no process reads
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	r.Env = append(r.Env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus)
	out, code := runDoctor(r, r.Command("steward", "doctor"))
	wantLines(r, out, "fail  socket: a process listens on .* and does not answer", "warn  desktop: popups do not reach the desktop: .*no answer", "ok    state folder", "1 failure,")
	if code != cli.ExitFailed {
		t.Errorf("exit %d, want %d", code, cli.ExitFailed)
	}
	if err := errors.Join(os.Remove(r.At("config.toml")), syscall.Mkfifo(r.At("config.toml"), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, _ = runDoctor(r, r.Command("steward", "doctor"))
	wantLines(r, out, "fail  problem: no answer within .*is it a pipe", "fail  socket: a process listens", "warn  desktop: ", "ok    open files")
}

// TestDoctorOfAnotherUser: root may write everywhere, so a user without any right looks at a folder of root's.
func TestDoctorOfAnotherUser(t *testing.T) {
	r := rig.New(t, "[[project]]\npath = \"p\"\n[[project]]\npath = \"shut\"\n")
	for name, mode := range map[string]fs.FileMode{"p": 0o555, "shut": 0o000, ".": 0o755, "..": 0o755} {
		if err := errors.Join(os.MkdirAll(r.At(name), 0o755), os.Chmod(r.At(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	program := r.At("steward")
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
	c := r.Command(program, "doctor")
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, code := runDoctor(r, c)
	wantLines(r, out, "fail  p: .* cannot be written: permission denied", "→ make it writable", "fail  shut: .* cannot be read: permission denied")
	if code != cli.ExitFailed {
		t.Errorf("exit %d, want %d", code, cli.ExitFailed)
	}
}
