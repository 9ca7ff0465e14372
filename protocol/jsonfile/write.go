package jsonfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Option changes how a write is carried out.
type Option uint8

// Volatile skips waiting for the disk: for steward's own files that are replaced within a minute anyway. The write is
// still atomic, except after a power cut.
const Volatile Option = 1

// Existing makes an Append to a missing file fail with ErrNotExist.
const Existing Option = 2

// maxCompare limits how much a write reads of the file that it replaces.
const maxCompare = 64 << 20

// newFileMode is the mode of a file that Update or Append has to create.
const newFileMode = 0o644

// Create writes a new file. It appears whole, with exactly this mode whatever the umask, or not at all. It returns
// ErrExist if the name is taken by anything.
func (r *Root) Create(p string, data []byte, mode fs.FileMode, opts ...Option) error {
	dir, name, err := r.parent(p)
	if err != nil {
		return r.fail(opCreate, p, err)
	}
	defer dir.release()
	if _, err := dir.lstat(name); err == nil {
		return r.fail(opCreate, p, fs.ErrExist)
	}
	like := Stamp{Mode: mode.Perm(), UID: -1, GID: -1}
	tmp, err := dir.draft(data, like, durable(opts))
	if err != nil {
		return r.fail(opCreate, p, err)
	}
	if err := dir.moveNew(tmp, dir.folder, name); err != nil {
		_ = dir.unlink(tmp)
		return r.fail(opCreate, p, err)
	}
	if err := dir.settle(durable(opts)); err != nil {
		return r.fail(opCreate, p, err)
	}
	return nil
}

// Replace replaces a file whose content has the sum expect, and keeps its mode and, if permitted, its owner. Absent:
// the file must not exist yet. Any: no condition. If the condition fails it returns ErrConflict and leaves the file as
// its last writer left it.
//
// A client may have the old file open and still write into it; the Late reports that. The Late is nil if nothing was
// replaced; otherwise the caller closes it. An error that names the folder's sync occurred after the replacement.
func (r *Root) Replace(p string, data []byte, expect Sum, opts ...Option) (*Late, error) {
	dir, name, err := r.parent(p)
	if err != nil {
		return nil, r.fail(opChange, p, err)
	}
	defer dir.release()
	late, err := r.replace(dir.folder, p, name, data, expect, durable(opts))
	if err != nil {
		return nil, r.fail(opChange, p, err)
	}
	return late, nil
}

func (r *Root) replace(dir folder, p, name string, data []byte, expect Sum, wait bool) (*Late, error) {
	late, err := r.judge(dir, p, name, expect)
	if err != nil {
		return nil, err
	}
	like := Stamp{Mode: newFileMode, UID: -1, GID: -1}
	if late != nil {
		like = late.stamp
	}
	tmp, err := dir.draft(data, like, wait)
	if err == nil {
		err = dir.publish(tmp, name, late)
		_ = dir.unlink(tmp) // before waiting for the disk: a folder that is being removed must become empty
	}
	if err == nil {
		err = dir.settle(wait)
	}
	if err != nil {
		_ = late.Close()
		return nil, err
	}
	return late.keep(), nil
}

// judge opens the file that is about to be replaced and compares its content. It returns a nil Late if there is no
// file.
func (r *Root) judge(dir folder, p, name string, expect Sum) (*Late, error) {
	f, _, err := r.openIn(dir, name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if expect != Any && expect != Absent {
			return nil, fmt.Errorf("%w: it is gone", ErrConflict)
		}
		return nil, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, &Error{Hint: r.missing(opRead, p), Err: err}
	}
	if err != nil {
		return nil, err
	}
	data, st, err := steady(f, maxCompare)
	if errors.Is(err, ErrTorn) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err == nil && expect != Any && SumOf(data) != expect {
		err = ErrConflict
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Late{f: f, stamp: st, data: data}, nil
}

// publish puts tmp in the place of name, if name is still the judged file. If the system can swap two entries, a file
// that arrived at the last moment is swapped back; elsewhere a race of some microseconds remains.
func (d folder) publish(tmp, name string, old *Late) error {
	if old == nil {
		err := d.moveNew(tmp, d, name)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: it was created meanwhile", ErrConflict)
		}
		return err
	}
	if err := old.unchanged(d, name); err != nil {
		return err
	}
	ours, err := d.lstat(tmp)
	if err != nil {
		return err
	}
	err = d.exchange(tmp, name)
	switch {
	case unsupported(err):
		return d.renameOver(tmp, name, old)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it is gone", ErrConflict)
	case err != nil:
		return err
	}
	return d.verify(tmp, name, ours, old)
}

// verify examines the file that the swap took out of name. If it is not the judged file, verify puts it back; if yet
// another file has arrived since, that newest file wins.
func (d folder) verify(tmp, name string, ours Stamp, old *Late) error {
	out, err := d.lstat(tmp)
	if err != nil || out.sameFile(old.stamp) {
		return err
	}
	if err := d.exchange(tmp, name); err != nil {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if back, err := d.lstat(tmp); err == nil && !back.sameFile(ours) {
		_ = d.exchange(tmp, name)
	}
	return fmt.Errorf("%w: another file took its place", ErrConflict)
}

func (d folder) renameOver(tmp, name string, old *Late) error {
	if !keepsOld {
		_ = old.f.Close()
	}
	return d.rename(tmp, d, name)
}

// Update reads p, passes the content to change (nil if there is no file) and replaces the file by the result. If
// another process wrote in the meantime, it retries a few times and ends with ErrConflict. Equal bytes, or nil, write
// nothing. An error of change is returned and nothing is written. max and the Late are those of Read and Replace.
func (r *Root) Update(p string, max int64, change func(old []byte) ([]byte, error), opts ...Option) (*Late, error) {
	for range tries - 1 {
		late, err := r.updateOnce(p, max, change, opts)
		if !errors.Is(err, ErrConflict) {
			return late, err
		}
	}
	return r.updateOnce(p, max, change, opts)
}

func (r *Root) updateOnce(p string, max int64, change func([]byte) ([]byte, error), opts []Option) (*Late, error) {
	blob, err := r.Read(p, max)
	if errors.Is(err, fs.ErrNotExist) {
		blob, err = Blob{Sum: Absent}, nil
	}
	if err != nil {
		return nil, err
	}
	// Pass a copy, because an in-place modification would look like no change.
	next, err := change(bytes.Clone(blob.Data))
	if err != nil {
		return nil, r.fail(opUpdate, p, err)
	}
	if next == nil || blob.Sum != Absent && bytes.Equal(next, blob.Data) {
		return nil, nil
	}
	return r.Replace(p, next, blob.Sum, opts...)
}

func durable(opts []Option) bool {
	return !slices.Contains(opts, Volatile)
}
