package jsonfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// keepsOld: replacing a file that is held open is refused here.
const keepsOld = false

// folder is an open directory; os.Root keeps every name inside it.
type folder struct{ r *os.Root }

func openTop(path string) (folder, error) {
	r, err := os.OpenRoot(path)
	return folder{r}, err
}

func (d folder) close() error { return d.r.Close() }

func (d folder) again() (folder, error) { return d.sub(".") }

func (d folder) sub(name string) (folder, error) {
	if name != "." {
		if fi, err := d.r.Lstat(name); err != nil || !fi.IsDir() {
			return folder{}, errors.Join(err, windows.ERROR_DIRECTORY)
		}
	}
	r, err := d.r.OpenRoot(name)
	return folder{r}, err
}

func (d folder) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return d.r.OpenFile(name, flag, perm)
}

func (d folder) lstat(name string) (Stamp, error) { return stamp(d.r.Lstat(name)) }

func (d folder) stat() (Stamp, error) { return stamp(d.r.Stat(".")) }

func fstat(f *os.File) (Stamp, error) { return stamp(f.Stat()) }

func (d folder) isAt(path string) bool {
	there, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
	}
	own, err := d.r.Stat(".")
	return err != nil || os.SameFile(there, own)
}

func (d folder) names() ([]string, error) {
	f, err := d.r.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d folder) mkdir(name string, perm fs.FileMode) error { return d.r.Mkdir(name, perm) }

func (d folder) unlink(name string) error { return d.r.Remove(name) }

// link and rename work by full path when two folders take part: os.Root has no
// call for that. Both folders were walked without links just before.
func (d folder) link(old string, to folder, name string) error {
	if d == to {
		return d.r.Link(old, name)
	}
	return os.Link(filepath.Join(d.r.Name(), old), filepath.Join(to.r.Name(), name))
}

func (d folder) rename(old string, to folder, name string) error {
	if d == to {
		return d.r.Rename(old, name)
	}
	return os.Rename(filepath.Join(d.r.Name(), old), filepath.Join(to.r.Name(), name))
}

// syncFlag: Windows syncs only what is open for writing.
const syncFlag = os.O_RDWR

func (d folder) sync() error { return nil }

// Chown: folders have no such owner here.
func (d folder) Chown(int, int) error { return nil }

func (d folder) chmod(fs.FileMode) error { return nil }

func chown(*os.File, int, int) error { return nil }

func stamp(fi fs.FileInfo, err error) (Stamp, error) {
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Size: fi.Size(), MtimeNs: fi.ModTime().UnixNano(), Mode: fi.Mode(), UID: -1, GID: -1}, nil
}

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

func isTooManyFiles(err error) bool { return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) }

func isLink(error) bool { return false }

func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// mayWrite asks nothing: an attempt tells.
func (d folder) mayWrite() error { return nil }
