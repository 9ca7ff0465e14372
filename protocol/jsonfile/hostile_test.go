package jsonfile_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Every access refuses anything but a plain file, at once and without following it.
func TestNotAPlainFile(t *testing.T) {
	r, dir := open(t, "good", "{}")
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "{}")
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Symlink("good", at("link-in")))
	must(t, os.Symlink(outside, at("link-out")))
	must(t, os.Symlink("nowhere", at("link-dead")))
	must(t, syscall.Mkfifo(at("fifo"), 0o644))
	l, err := net.Listen("unix", at("socket"))
	must(t, err)
	defer l.Close()
	kinds := map[string]string{"link-in": "symbolic link", "link-out": "symbolic link", "link-dead": "symbolic link", "fifo": "FIFO", "socket": "socket"}
	if err := syscall.Mknod(at("device"), syscall.S_IFCHR|0o644, 1<<8|3); err == nil {
		kinds["device"] = "device"
	} else {
		t.Log("device not tested: mknod needs root:", err)
	}
	for name, kind := range kinds {
		_, err := r.Read(name, 0)
		want(t, err, jsonfile.ErrHostile, kind, name)
		_, err = r.Stat(name)
		want(t, err, jsonfile.ErrHostile, kind)
		_, _, err = r.ReadAt(name, 0, 0)
		want(t, err, jsonfile.ErrHostile, kind)
		_, err = r.Replace(name, []byte("x"), jsonfile.Any)
		want(t, err, jsonfile.ErrHostile, kind)
		_, err = r.Update(name, 0, func([]byte) ([]byte, error) { return []byte("x"), nil })
		want(t, err, jsonfile.ErrHostile, kind)
		want(t, r.Append(name, []byte("x")), jsonfile.ErrHostile, kind)
		want(t, r.Rename(name, "moved"), jsonfile.ErrHostile, kind)
		want(t, r.RenameIf(name, "moved", jsonfile.SumOf(nil)), jsonfile.ErrHostile, kind)
		want(t, r.Create(name, nil, 0o644), jsonfile.ErrExist)
	}
	must(t, r.Remove("link-out"))
	same(t, read(t, outside), "{}")
	same(t, read(t, at("good")), "{}")
}

// The file turns into a FIFO and into a link between any two calls.
func TestSwappedWhileOpening(t *testing.T) {
	r, dir := open(t, "good", "{}", "x", "{}")
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "secret")
	must(t, syscall.Mkfifo(at("fifo"), 0o644))
	must(t, os.Symlink(outside, at("link")))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := os.Link(at([]string{"good", "fifo", "good", "link"}[i%4]), at("next")); err != nil {
				t.Error(err)
			}
			if err := os.Rename(at("next"), at("x")); err != nil {
				t.Error(err)
			}
			_ = os.Remove(at("next")) // rename does nothing between links of one file
		}
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 20_000 {
			if b, err := r.Read("x", 0); err == nil && string(b.Data) != "{}" {
				t.Errorf("read %q", b.Data)
			}
		}
	}()
	select {
	case <-read:
	case <-time.After(time.Minute):
		t.Fatal("a read waits for a FIFO")
	}
	close(stop)
	<-done
}

func TestLinkedFolderOnTheWay(t *testing.T) {
	r, dir := open(t, "real/x", "{}")
	outside := t.TempDir()
	write(t, filepath.Join(outside, "x"), "{}")
	must(t, os.Symlink("real", filepath.Join(dir, "in")))
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	for _, d := range []string{"in", "out"} {
		_, err := r.Read(d+"/x", 0)
		want(t, err, jsonfile.ErrHostile, "symbolic link")
		_, _, err = r.List(d)
		want(t, err, jsonfile.ErrHostile, "symbolic link")
		_, err = r.Sub(d)
		want(t, err, jsonfile.ErrHostile)
		want(t, r.Create(d+"/y", nil, 0o644), jsonfile.ErrHostile)
		want(t, r.MkdirAll(d+"/y", 0o755), jsonfile.ErrHostile, "symbolic link")
		want(t, r.Rename("real/x", d+"/y"), jsonfile.ErrHostile)
	}
	same(t, names(t, outside), "x")
}

func TestModeIsKept(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	r, dir := open(t)
	for _, mode := range []os.FileMode{0o664, 0o600, 0o644, 0o666} {
		name := strings.ReplaceAll(mode.String(), "-", "_")
		must(t, r.Create(name, []byte("1"), mode))
		late, err := r.Replace(name, []byte("2"), jsonfile.Any)
		must(t, err)
		must(t, late.Close())
		fi, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		same(t, fi.Mode(), mode)
	}
	must(t, r.MkdirAll("d/e", 0o775))
	fi, err := os.Stat(filepath.Join(dir, "d/e"))
	must(t, err)
	same(t, fi.Mode().Perm(), 0o775)
}

// A client keeps the file open and writes in place after our rename: both its write and our key survive.
func TestLateBytes(t *testing.T) {
	r, dir := open(t, "reg.json", `{"a": 1}`)
	path := filepath.Join(dir, "reg.json")
	client, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer client.Close()
	ours := jsonfile.Set{Path: []string{"status"}, Value: "error"}
	set := func(old []byte) ([]byte, error) { return jsonfile.Edit(old, ours) }
	late, err := r.Update("reg.json", 0, set)
	must(t, err)
	defer late.Close()
	_, changed, err := late.Check()
	must(t, err)
	same(t, changed, false)

	must(t, client.Truncate(0))
	data, changed, err := late.Check()
	must(t, err)
	same(t, changed, true)
	_, err = set(data)
	want(t, err, jsonfile.ErrTorn)
	_, err = client.WriteAt([]byte(`{"a": 2}`), 0)
	must(t, err)
	data, changed, err = late.Check()
	must(t, err)
	same(t, changed, true)
	merged, err := set(data)
	must(t, err)
	now, err := r.Read("reg.json", 0)
	must(t, err)
	second, err := r.Replace("reg.json", merged, now.Sum)
	must(t, err)
	must(t, second.Close())
	same(t, read(t, path), `{"a": 2, "status": "error"}`)
	_, changed, err = late.Check()
	must(t, err)
	same(t, changed, false)
}
