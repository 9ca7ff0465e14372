package jsonfile

import (
	"errors"
	"io/fs"
	"os"
)

// OpenLock opens the plain file p for locking and creates it if it is missing, but never its folder. Every user who may
// write in that folder may take the lock.
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

// openLock asks for the least access that works: read access is enough for a lock on a local disk, but NFS needs a
// writable file.
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
		_ = f.Chmod(mode) // an older lock file, closed to other users; only its owner may change that
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

// lockMode grants access to a lock to all users who may write in its folder.
func (d folder) lockMode() fs.FileMode {
	st, err := d.stat()
	if err != nil {
		return 0o600
	}
	others := st.Mode.Perm() & 0o022
	return 0o600 | others | others<<1
}

// Is reports whether the name p still refers to the open file f.
func (r *Root) Is(p string, f *os.File) bool {
	named, err := r.Stat(p)
	if err != nil {
		return false
	}
	own, err := fstat(f)
	return err == nil && named.sameFile(own)
}

// Writable reports why no file can be created in the folder; nil if one can, or if only an attempt would tell.
func (r *Root) Writable() error {
	if err := r.top.mayWrite(); err != nil {
		return r.fail(opCreate, ".", err)
	}
	return nil
}
