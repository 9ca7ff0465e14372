package protocoltest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const (
	envNobody = "STEWARD_TEST_AS_NOBODY"
	nobody    = 65534
)

// AsNobody runs test as a non-root user, because root bypasses permissions: it starts this test binary again, for this
// one test. There t.TempDir returns folders of that user.
func AsNobody(t *testing.T, test func(t *testing.T)) {
	if os.Geteuid() != 0 || os.Getenv(envNobody) != "" {
		test(t)
		return
	}
	dir, err := os.MkdirTemp("/tmp", "nobody") // the folders of t.TempDir are accessible to root only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, home := filepath.Join(dir, "test"), filepath.Join(dir, "home")
	text, err := os.ReadFile(os.Args[0])
	if err = errors.Join(err, os.WriteFile(binary, text, 0o755), os.Chmod(dir, 0o755), os.Mkdir(home, 0o755), os.Chown(home, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envNobody+"=1", "TMPDIR="+home, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); errors.Is(err, syscall.EPERM) {
		t.Skip("this process may not become another user: skipped")
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
