package jsonfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Rename renames the plain file old to new, in the same folder or another, and never overwrites: ErrExist if the name
// is taken. Of several concurrent callers exactly one succeeds; the others get ErrNotExist.
func (r *Root) Rename(old, new string, opts ...Option) error {
	return r.RenameIf(old, new, Any, opts...)
}

// RenameIf is Rename for a file whose content has the sum expect, else ErrConflict. A client that has the file open
// keeps writing into it under its new name, so nothing is lost.
func (r *Root) RenameIf(old, new string, expect Sum, opts ...Option) error {
	return r.at(opRename, old, func(from dirEntry) error {
		to, err := reach(r.top, new)
		if err != nil {
			return err
		}
		defer to.release()
		err = move(from, to, expect, durable(opts), path.Dir(old) == path.Dir(new))
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("to %s: %w", new, err)
		}
		return err
	})
}

// move renames the judged file, and puts another file that took its place at the last moment back.
func move(from, to dirEntry, expect Sum, wait, within bool) error {
	judged, err := judgeMove(from, expect)
	if err != nil {
		return err
	}
	if err := moveNew(from, to); err != nil {
		return err
	}
	if now, err := to.stat(); err == nil && expect != Any && !now.sameFile(judged) {
		// If yet another file has taken the old name since, its writer meant to replace the moved file: drop that.
		if err := moveNew(to, from); errors.Is(err, fs.ErrExist) {
			_ = to.unlink(to.name)
		}
		return errReplaced
	}
	if err := settle(to.folder, wait); err != nil || within {
		return err
	}
	return settle(from.folder, wait)
}

// judgeMove checks that e is a plain file and, unless expect is Any, its content.
func judgeMove(e dirEntry, expect Sum) (Stamp, error) {
	if expect == Any {
		st, err := e.stat()
		if err == nil && !st.Mode.IsRegular() {
			err = hostile(e.name, st)
		}
		return st, err
	}
	old, err := judge(e, expect)
	if err != nil {
		return Stamp{}, err
	}
	return old.stamp, old.Close()
}

// moveNew renames and never overwrites. If the system has no such call, a hard link does the same in two steps; both
// names exist for a moment.
func moveNew(from, to dirEntry) error {
	err := from.renameNew(from.name, to.folder, to.name)
	if !unsupported(err) {
		return err
	}
	if err := from.link(from.name, to.folder, to.name); err != nil {
		return err
	}
	return from.unlink(from.name)
}

// Remove deletes a file or a link (not the link's target). It refuses folders.
func (r *Root) Remove(p string, opts ...Option) error {
	return r.at(opRemove, p, func(e dirEntry) error {
		st, err := e.stat()
		if err == nil && st.Mode.IsDir() {
			err = hostile(e.name, st)
		}
		if err == nil {
			err = e.unlink(e.name)
		}
		if err != nil {
			return err
		}
		return settle(e.folder, durable(opts))
	})
}

// RemoveIf deletes a plain file whose content has the sum expect, else ErrConflict. It moves the file aside first, so
// that a file which takes its place at the last moment is not deleted.
func (r *Root) RemoveIf(p string, expect Sum, opts ...Option) error {
	return r.at(opRemove, p, func(e dirEntry) error {
		aside := dirEntry{folder: e.folder, name: tempName()}
		err := move(e, aside, expect, false, true)
		if err == nil {
			err = aside.unlink(aside.name)
		}
		if err != nil {
			return err
		}
		return settle(e.folder, durable(opts))
	})
}
