package jsonfile_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
	"golang.org/x/sys/unix"
)

// The steps that the crash tests run in a separate child process.
var steps = map[string]func(r *jsonfile.Root) error{
	"create": func(r *jsonfile.Root) error { return r.Create("x", []byte("new"), 0o644) },
	"replace": func(r *jsonfile.Root) error {
		late, err := r.Replace("x", []byte("new"), jsonfile.SumOf([]byte("old")))
		_ = late.Close()
		return err
	},
	"rename": func(r *jsonfile.Root) error { return r.Rename("x", "new") },
	"remove": func(r *jsonfile.Root) error { return r.RemoveIf("x", jsonfile.SumOf([]byte("old"))) },
	"append": func(r *jsonfile.Root) error { return r.Append("x", []byte("new")) },
}

func TestMain(m *testing.M) {
	if step := os.Getenv("JSONFILE_STEP"); step != "" {
		runtime.LockOSThread() // strace counts calls per thread
		if os.Getenv("JSONFILE_PID") != "" {
			fmt.Println(os.Getpid())
		}
		r, err := jsonfile.Open(os.Getenv("JSONFILE_DIR"))
		if err == nil {
			err = steps[step](r)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// under runs one step in a child under strace with a fault injected.
func under(t *testing.T, inject, step, dir string) (exit int, says string) {
	t.Helper()
	call, _, _ := strings.Cut(inject, ":")
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call, "-e", "inject="+inject, os.Args[0])
	cmd.Env = append(os.Environ(), "JSONFILE_STEP="+step, "JSONFILE_DIR="+dir,
		"GORACE=atexit_sleep_ms=0") // otherwise every child waits a second
	out, err := cmd.Output()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func needStrace(t *testing.T) {
	if err := exec.Command("strace", "-o", "/dev/null", "true").Run(); err != nil {
		t.Skip("fault injection not tested: strace does not run here:", err)
	}
	if unix.Access("/dev/shm", unix.W_OK) == nil {
		t.Setenv("TMPDIR", "/dev/shm") // the order of the calls counts here, not the disk
	}
}

// After a kill before any step, the file is the old or the new one, and a sweep removes everything else.
func TestKilledBetweenSteps(t *testing.T) {
	needStrace(t)
	for _, c := range []struct{ step, call string }{
		{"create", "fchmod"}, {"create", "fsync"}, {"create", "renameat2"}, {"create", "linkat"},
		{"replace", "fchmod"}, {"replace", "fsync"}, {"replace", "renameat2"}, {"replace", "unlinkat"},
		{"rename", "renameat2"}, {"rename", "fsync"},
		{"remove", "renameat2"}, {"remove", "unlinkat"}, {"remove", "fsync"},
		{"append", "fsync"},
	} {
		killed := 0
		for n := 1; n <= 3; n++ {
			r, dir := open(t, "x", "old")
			if c.step == "create" {
				must(t, r.Remove("x"))
			}
			exit, says := under(t, fmt.Sprintf("%s:signal=KILL:when=%d", c.call, n), c.step, dir)
			if exit == 3 {
				t.Fatalf("%s: %s", c.step, says)
			}
			if exit != 0 {
				killed++
			}
			err := r.Sweep(".", time.Now().Add(2*time.Minute))
			must(t, err)
			switch got := names(t, dir); {
			case got == "" && (c.step == "create" || c.step == "remove"), got == "new" && c.step == "rename":
			case got != "x":
				t.Errorf("%+v, %d: left %q", c, n, got)
			default:
				if b := read(t, filepath.Join(dir, "x")); b != "old" && b != "new" && b != "old\nnew\n" {
					t.Errorf("%+v, %d: holds %q", c, n, b)
				}
			}
		}
		if killed == 0 {
			t.Errorf("%+v was never killed: the call is not made", c)
		}
	}
}

// drafting reports whether a process has a draft open in dir, named or not.
func drafting(pid int, dir string) bool {
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir+"/") && to != filepath.Join(dir, "x") {
			return true
		}
	}
	return false
}

// A client's in-place write during the wait for the disk is a conflict. The child is stopped in its fsync for as long
// as the test needs.
func TestWriteDuringTheSync(t *testing.T) {
	needStrace(t)
	r, dir := open(t, "x", "old")
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:signal=STOP:when=1", os.Args[0])
	cmd.Env = append(os.Environ(), "JSONFILE_STEP=replace", "JSONFILE_DIR="+dir, "JSONFILE_PID=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var pid int
	_, err = fmt.Fscanln(out, &pid)
	must(t, err)
	for !drafting(pid, dir) && t.Context().Err() == nil {
		runtime.Gosched() // until the draft is open: by then the file has been judged
	}
	write(t, filepath.Join(dir, "x"), "other")
	done := make(chan struct{})
	go func() {
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick.C: // repeatedly: the stop may not have happened yet
				_ = unix.Kill(pid, unix.SIGCONT)
			}
		}
	}()
	says, err := io.ReadAll(out)
	close(done)
	must(t, err)
	_ = cmd.Wait()
	same(t, string(says), "replace x: file has changed since it was judged\n")
	b, err := r.Read("x", 0)
	must(t, err)
	same(t, string(b.Data), "other")
}

// A failing step leaves the old file, no draft, and a message for the operator.
func TestFailedSteps(t *testing.T) {
	needStrace(t)
	for _, c := range []struct{ inject, step, says, holds string }{
		{"fsync:error=EIO:when=1", "replace", "replace x: input/output error", "old"},
		{"fsync:error=EIO:when=2", "replace", "sync folder", "new"},
		{"fchmod:error=ENOSPC:when=1", "replace", "no space left on device (free space", "old"},
		{"renameat2:error=EDQUOT:when=1", "replace", "(free space", "old"},
		{"renameat2:error=EROFS:when=1", "replace", "read-only file system (remount", "old"},
		{"openat:error=EMFILE:when=6+", "replace", "", "old"},
		{"fsync:error=EINVAL:when=2", "replace", "", "new"},
		// File systems without support for the flags.
		{"renameat2:error=EINVAL", "replace", "", "new"},
		{"renameat2:error=ENOSYS", "replace", "", "new"},
		{"renameat2:error=EINVAL", "create", "", "new"},
		{"renameat2:error=EINVAL", "remove", "", "-"},
	} {
		r, dir := open(t, "x", "old")
		if c.step == "create" {
			must(t, r.Remove("x"))
		}
		exit, says := under(t, c.inject, c.step, dir)
		if !strings.Contains(says, c.says) || (exit == 0) != (c.says == "") && !strings.HasPrefix(c.inject, "openat") {
			t.Errorf("%+v: exit %d, %q", c, exit, says)
		}
		got := "-"
		if b, err := os.ReadFile(filepath.Join(dir, "x")); err == nil {
			got = string(b)
		}
		if got != c.holds && !strings.HasPrefix(c.inject, "openat") || strings.Contains(names(t, dir), "tmp") {
			t.Errorf("%+v: holds %q in %q", c, got, names(t, dir))
		}
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("full disk not tested: mounting a tmpfs needs root:", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	r, err := jsonfile.Open(dir)
	must(t, err)
	defer r.Close()
	must(t, r.Create("x", []byte("old"), 0o644))
	big := []byte(strings.Repeat("x", 100<<10))
	_, err = r.Replace("x", big, jsonfile.Any)
	want(t, err, jsonfile.ErrNoSpace, "free space", "replace x")
	want(t, r.Create("y", big, 0o644), jsonfile.ErrNoSpace)
	want(t, r.Append("log", big), jsonfile.ErrNoSpace)
	same(t, read(t, filepath.Join(dir, "x")), "old")
	same(t, names(t, dir), "log x")
	must(t, unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = r.Replace("x", []byte("new"), jsonfile.Any)
	want(t, err, jsonfile.ErrReadOnly, "remount")
}

// asNobody runs f on a thread without root's file permissions.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must(t, unix.Setfsgid(65534))
	must(t, unix.Setfsuid(65534))
	defer func() {
		must(t, unix.Setfsuid(0))
		must(t, unix.Setfsgid(0))
	}()
	f()
}

func TestPermissionIsNamed(t *testing.T) {
	r, dir := open(t, "shut/x", "1", "file", "1", "ro/x", "1", "log", "1\n")
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Join(dir, "file"), 0o000))
	must(t, os.Chmod(filepath.Join(dir, "log"), 0o444))
	must(t, os.Chmod(filepath.Join(dir, "ro"), 0o555))
	must(t, os.Chmod(filepath.Join(dir, "shut"), 0o000))
	asNobody(t, func() {
		_, err := r.Read("file", 0)
		want(t, err, jsonfile.ErrPermission, "read permission (r--) on file file", "mode 0, owner uid")
		_, err = r.Read("shut/x", 0)
		want(t, err, jsonfile.ErrPermission, "(r-x) on folder shut")
		_, err = r.Replace("ro/x", []byte("2"), jsonfile.Any)
		want(t, err, jsonfile.ErrPermission, "write and search permission (-wx) on folder ro", "mode 0555")
		_, err = r.Replace("file", []byte("2"), jsonfile.Any)
		want(t, err, jsonfile.ErrPermission, "read permission (r--) on file file")
		want(t, r.Append("log", []byte("2")), jsonfile.ErrPermission, "(rw-) on file log")
		want(t, r.Create("ro/y", nil, 0o644), jsonfile.ErrPermission, "folder ro")
		want(t, r.MkdirAll("ro/y", 0o755), jsonfile.ErrPermission, "folder ro")
		want(t, r.Rename("ro/x", "ro/y"), jsonfile.ErrPermission, "folder ro")
	})
	must(t, os.Chmod(filepath.Join(dir, "shut"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "ro"), 0o755))
}

// Root keeps the owner; another user refuses a replacement that would take write access from the file's owner.
func TestOwnerIsKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("owners not tested: giving files away needs root")
	}
	r, dir := open(t, "theirs", "1", "shared", "1")
	must(t, os.Chmod(dir, 0o777))
	must(t, os.Chown(filepath.Join(dir, "theirs"), 1234, 4321))
	late, err := r.Replace("theirs", []byte("2"), jsonfile.Any)
	must(t, err)
	must(t, late.Close())
	st, err := r.Stat("theirs")
	must(t, err)
	same(t, fmt.Sprint(st.UID, st.GID), "1234 4321")
	must(t, os.Chmod(filepath.Join(dir, "shared"), 0o666))
	asNobody(t, func() {
		_, err := r.Replace("theirs", []byte("3"), jsonfile.Any)
		want(t, err, jsonfile.ErrPermission, "chmod g+w", "uid 1234")
		late, err := r.Replace("shared", []byte("3"), jsonfile.Any)
		must(t, err)
		must(t, late.Close())
	})
	same(t, read(t, filepath.Join(dir, "theirs")), "2")
	same(t, names(t, dir), "shared theirs")
}

// No call leaks a descriptor, whatever happens.
func TestNoDescriptorLeaks(t *testing.T) {
	r, dir := open(t, "a/x", "old", "a/link", "")
	must(t, os.Remove(filepath.Join(dir, "a/link")))
	must(t, os.Symlink("x", filepath.Join(dir, "a/link")))
	all := func() {
		_, _ = r.Read("a/x", 0)
		_, _ = r.Read("a/x", 1)
		_, _ = r.Read("a/link", 0)
		_, _ = r.Read("a/x/y", 0)
		_, _, _ = r.ReadAt("a/x", 0, 0)
		_, _, _ = r.List("a")
		_, _ = r.Each("a", func([]byte) {})
		_, _ = r.Replace("a/x", []byte("n"), jsonfile.Absent)
		late, _ := r.Replace("a/x", []byte("n"), jsonfile.Any)
		_ = late.Close()
		_ = r.Create("a/x", nil, 0o644)
		_ = r.Append("a/x", []byte("y"))
		_ = r.RenameIf("a/x", "a/z", "no")
		_ = r.MkdirAll("a/b/c", 0o755)
		_ = r.MkdirAll("a/link/c", 0o755)
		_ = r.Sweep("a", time.Time{})
	}
	all()
	before := descriptors(t)
	for range 20 {
		all()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

func descriptors(t *testing.T) int {
	d, err := os.Open("/proc/self/fd")
	must(t, err)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return len(names)
}
