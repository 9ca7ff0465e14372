package jsonfile

import (
	"errors"
	"io/fs"
	"os"
)

// OpenLock opens the plain file p, which is there to be locked, and makes it
// where it is missing: never the folder that holds it. Everybody who may write
// in that folder may take the lock.
func (r *Root) OpenLock(p string) (*os.File, error) {
	dir, name, err := r.parent(p)
	if err != nil {
		return nil, r.fail(opLock, p, err)
	}
	defer dir.release()
	for range tries {
		f, err := r.openLock(dir.folder, name)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = dir.createLock(name)
		}
		if !errors.Is(err, fs.ErrExist) {
			if err != nil {
				return nil, r.fail(opLock, p, err)
			}
			return f, nil
		}
	}
	return nil, r.fail(opLock, p, ErrConflict)
}

// openLock asks for no more than it needs: to read is enough for the lock of a
// local disk, NFS wants a file that can be written.
func (r *Root) openLock(dir folder, name string) (*os.File, error) {
	f, st, err := r.openIn(dir, name, os.O_RDWR)
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		f, _, err = r.openIn(dir, name, os.O_RDONLY)
		return f, err
	}
	if err != nil {
		return nil, err
	}
	if mode := dir.lockMode() | st.Mode.Perm(); mode != st.Mode.Perm() {
		_ = f.Chmod(mode) // an older one, closed to the others; only its owner may
	}
	return f, nil
}

func (d folder) createLock(name string) (*os.File, error) {
	mode := d.lockMode()
	f, err := d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	d.bequeath(f)
	if err := f.Chmod(mode); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lockMode lets those read and write a lock who may write its folder.
func (d folder) lockMode() fs.FileMode {
	st, err := d.stat()
	if err != nil {
		return 0o600
	}
	others := st.Mode.Perm() & 0o022
	return 0o600 | others | others<<1
}

// Is reports whether the name p still leads to the open file f.
func (r *Root) Is(p string, f *os.File) bool {
	named, err := r.Stat(p)
	if err != nil {
		return false
	}
	own, err := fstat(f)
	return err == nil && named.sameFile(own)
}

// Writable reports why no file can be made in the folder; nil when one can, or
// when only an attempt would tell.
func (r *Root) Writable() error {
	if err := r.top.mayWrite(); err != nil {
		return r.fail(opCreate, ".", err)
	}
	return nil
}
