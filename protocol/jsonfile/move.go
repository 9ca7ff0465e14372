package jsonfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Rename renames the plain file old to new, in the same folder or another, and never overwrites: ErrExist if the name
// is taken. Of several concurrent callers exactly one succeeds; the others get ErrNotExist.
func (r *Root) Rename(old, new string, opts ...Option) error {
	return r.RenameIf(old, new, Any, opts...)
}

// RenameIf is Rename for a file whose content has the sum expect, else ErrConflict. A client that has the file open
// keeps writing into it under its new name, so nothing is lost.
func (r *Root) RenameIf(old, new string, expect Sum, opts ...Option) error {
	if err := r.move(old, new, expect, durable(opts)); err != nil {
		return r.fail(opRename, old, err)
	}
	return nil
}

func (r *Root) move(old, new string, expect Sum, wait bool) error {
	from, name, err := r.parent(old)
	if err != nil {
		return err
	}
	defer from.release()
	to, target, err := r.parent(new)
	if err != nil {
		return err
	}
	defer to.release()
	judged, err := r.judgeMove(from.folder, name, expect)
	if err != nil {
		return err
	}
	if err := from.moveNew(name, to.folder, target); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("to %s: %w", new, err)
		}
		return err
	}
	if now, err := to.lstat(target); err == nil && expect != Any && !now.sameFile(judged) {
		return to.putBack(target, from.folder, name)
	}
	if err := to.settle(wait); err != nil {
		return err
	}
	if path.Dir(old) == path.Dir(new) {
		return nil
	}
	return from.settle(wait)
}

// putBack undoes the move of a file that was not the judged one. If yet another file has taken the old name since, its
// writer meant to replace the moved file: drop the moved file.
func (d folder) putBack(name string, to folder, old string) error {
	if err := d.moveNew(name, to, old); errors.Is(err, fs.ErrExist) {
		_ = d.unlink(name)
	}
	return fmt.Errorf("%w: another file took its place", ErrConflict)
}

// judgeMove checks that name is a plain file and, unless expect is Any, its content.
func (r *Root) judgeMove(dir folder, name string, expect Sum) (Stamp, error) {
	if expect == Any {
		st, err := dir.lstat(name)
		if err == nil && !st.Mode.IsRegular() {
			err = hostile(name, st)
		}
		return st, err
	}
	f, _, err := r.openIn(dir, name, os.O_RDONLY)
	if err != nil {
		return Stamp{}, err
	}
	defer f.Close()
	data, st, err := steady(f, maxCompare)
	switch {
	case errors.Is(err, ErrTorn):
		return Stamp{}, fmt.Errorf("%w: %w", ErrConflict, err)
	case err != nil:
		return Stamp{}, err
	case SumOf(data) != expect:
		return Stamp{}, ErrConflict
	}
	return st, nil
}

// Link gives the plain file old a second name: the first of several callers succeeds, the others get ErrExist.
func (r *Root) Link(old, new string, opts ...Option) error {
	if err := r.addName(old, new, durable(opts)); err != nil {
		return r.fail(opLink, old, err)
	}
	return nil
}

func (r *Root) addName(old, new string, wait bool) error {
	from, name, err := r.parent(old)
	if err != nil {
		return err
	}
	defer from.release()
	to, target, err := r.parent(new)
	if err != nil {
		return err
	}
	defer to.release()
	if _, err := r.judgeMove(from.folder, name, Any); err != nil {
		return err
	}
	if err := from.link(name, to.folder, target); err != nil {
		return err
	}
	return to.settle(wait)
}

// Remove deletes a file or a link (not the link's target). It refuses folders.
func (r *Root) Remove(p string, opts ...Option) error {
	dir, name, err := r.parent(p)
	if err != nil {
		return r.fail(opRemove, p, err)
	}
	defer dir.release()
	st, err := dir.lstat(name)
	if err == nil && st.Mode.IsDir() {
		err = hostile(name, st)
	}
	if err == nil {
		err = dir.unlink(name)
	}
	if err == nil {
		err = dir.settle(durable(opts))
	}
	if err != nil {
		return r.fail(opRemove, p, err)
	}
	return nil
}

// RemoveIf deletes a plain file whose content has the sum expect, else ErrConflict. It moves the file aside first, so
// that a file which takes its place at the last moment is not deleted.
func (r *Root) RemoveIf(p string, expect Sum, opts ...Option) error {
	aside := path.Join(path.Dir(p), tempName())
	if err := r.move(p, aside, expect, false); err != nil {
		return r.fail(opRemove, p, err)
	}
	return r.Remove(aside, opts...)
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
	at := reached{folder: r.top}
	for name := range strings.SplitSeq(p, "/") {
		next, err := at.make(name, mode)
		at.release()
		if err != nil {
			return r.fail(opMkdir, p, err)
		}
		at = reached{next, true}
	}
	at.release()
	return nil
}

// Mkdir makes the single folder p, like MkdirAll. It returns ErrNotExist if the parent is missing: a removed folder is
// not recreated.
func (r *Root) Mkdir(p string, mode fs.FileMode) error {
	d, name, err := r.parent(p)
	if err != nil {
		return r.fail(opMkdir, p, err)
	}
	defer d.release()
	next, err := d.make(name, mode)
	if err != nil {
		return r.fail(opMkdir, p, err)
	}
	_ = next.close()
	return nil
}

func (d folder) make(name string, mode fs.FileMode) (folder, error) {
	err := d.mkdir(name, mode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return folder{}, err
	}
	made := err == nil
	next, err := d.sub(name)
	if err != nil {
		return folder{}, d.explain(name, err)
	}
	if made {
		d.bequeath(next)
		if err = next.chmod(mode); err == nil {
			err = d.settle(true)
		}
	}
	if err != nil {
		_ = next.close()
	}
	return next, err
}
