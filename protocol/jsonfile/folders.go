package jsonfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// List returns the names in the folder p ("." is the root), unordered, and the folder's Stamp from before the read: if
// the Stamp was Settled and is equal later, no entry has been added or removed.
func (r *Root) List(p string) (names []string, st Stamp, err error) {
	err = r.in(opList, p, func(d folder) (err error) {
		if st, err = fstat(d.f); err == nil {
			names, err = d.f.Readdirnames(-1)
		}
		return err
	})
	if err != nil {
		return nil, Stamp{}, err
	}
	return names, st, nil
}

// Each passes every name in the folder p to take, unordered, and returns the Stamp that List would. The bytes of a name
// are valid until take returns: listing 100,000 names makes no garbage. On an error only some names were passed.
func (r *Root) Each(p string, take func(name []byte)) (st Stamp, err error) {
	err = r.in(opList, p, func(d folder) (err error) {
		if st, err = fstat(d.f); err == nil {
			err = d.each(take)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the folder was removed while it was read", ErrTorn)
		}
		return err
	})
	if err != nil {
		return Stamp{}, err
	}
	return st, nil
}

// MkdirAll makes the folder p and its missing parents, with exactly this mode whatever the umask. A link on the way is
// ErrHostile. Existing folders keep their mode.
func (r *Root) MkdirAll(p string, mode fs.FileMode) error {
	if p == "." {
		return nil
	}
	if err := checkPath(p); err != nil {
		return r.fail(opMkdir, p, err)
	}
	at := r.top
	var err error
	for name := range strings.SplitSeq(p, "/") {
		var next folder
		next, err = makeIn(at, name, mode)
		if at != r.top {
			_ = at.close()
		}
		if err != nil {
			return r.fail(opMkdir, p, err)
		}
		at = next
	}
	_ = at.close()
	return nil
}

// Mkdir makes the single folder p, like MkdirAll. It returns ErrNotExist if the parent is missing: a removed folder is
// not recreated.
func (r *Root) Mkdir(p string, mode fs.FileMode) error {
	return r.at(opMkdir, p, func(e dirEntry) error {
		d, err := makeIn(e.folder, e.name, mode)
		if err == nil {
			_ = d.close()
		}
		return err
	})
}

// makeIn makes a folder in d unless it exists, and opens it.
func makeIn(d folder, name string, mode fs.FileMode) (folder, error) {
	err := d.mkdir(name, mode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return folder{}, err
	}
	made := err == nil
	next, err := enter(d, name)
	if err != nil || !made {
		return next, err
	}
	bequeath(d, next.f)
	if err = next.f.Chmod(mode.Perm()); err == nil {
		err = settle(d, true)
	}
	if err != nil {
		_ = next.close()
	}
	return next, err
}

// SyncFolder waits until the names in the folder p are on disk. After many Volatile renames it replaces the wait that
// each of them skipped.
func (r *Root) SyncFolder(p string) error {
	return r.in(opSync, p, func(d folder) error { return settle(d, true) })
}

// settle waits, if asked to, until the names in d are on disk.
func settle(d folder, wait bool) error {
	if !wait {
		return nil
	}
	if err := d.sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// hostile describes what was found instead of a plain file.
func hostile(what string, s Stamp) error {
	kind := "something else"
	switch m := s.Mode; {
	case m.IsDir():
		kind = "a folder"
	case m.IsRegular():
		kind = fmt.Sprintf("a file with %d hard links", s.Links)
	case m&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case m&fs.ModeSocket != 0:
		kind = "a socket"
	case m&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Errorf("%w: %s is %s", ErrHostile, path.Base(what), kind)
}
