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

func durable(opts []Option) bool { return !slices.Contains(opts, Volatile) }

// maxCompare limits how much a write reads of the file that it replaces.
const maxCompare = 64 << 20

// newFileMode is the mode of a file that Update or Append has to create.
const newFileMode = 0o644

// Create writes a new file. It appears whole, with exactly this mode whatever the umask, or not at all. It returns
// ErrExist if the name is taken by anything.
func (r *Root) Create(p string, data []byte, mode fs.FileMode, opts ...Option) error {
	return r.at(opCreate, p, func(e dirEntry) error {
		if _, err := e.stat(); err == nil {
			return fs.ErrExist
		}
		draft, err := newDraft(e.folder, data, Stamp{Mode: mode.Perm(), UID: -1, GID: -1}, durable(opts))
		if err != nil {
			return err
		}
		if err := moveNew(draft, e); err != nil {
			_ = draft.unlink(draft.name)
			return err
		}
		return settle(e.folder, durable(opts))
	})
}

// Replace replaces a file whose content has the sum expect, and keeps its mode and, if permitted, its owner. Absent:
// the file must not exist yet. Any: no condition. If the condition fails it returns ErrConflict and leaves the file as
// its last writer left it.
//
// A client may have the old file open and still write into it; the Late reports that. The Late is nil if nothing was
// replaced; otherwise the caller closes it. An error that names the folder's sync occurred after the replacement.
func (r *Root) Replace(p string, data []byte, expect Sum, opts ...Option) (old *Late, err error) {
	err = r.at(opChange, p, func(e dirEntry) (err error) {
		old, err = judge(e, expect)
		if errors.Is(err, fs.ErrNotExist) {
			old, err = nil, nil
			if expect != Any && expect != Absent {
				err = errGone
			}
		}
		if err != nil {
			return err
		}
		like := Stamp{Mode: newFileMode, UID: -1, GID: -1}
		if old != nil {
			like = old.stamp
		}
		draft, err := newDraft(e.folder, data, like, durable(opts))
		if err != nil {
			return err
		}
		err = publish(draft, e, old)
		_ = e.unlink(draft.name) // before waiting for the disk: a folder that is being removed must become empty
		if err != nil {
			return err
		}
		return settle(e.folder, durable(opts))
	})
	if err != nil {
		_ = old.Close()
		return nil, err
	}
	return old, nil
}

// judge opens the plain file at e, whose content must have the sum expect.
func judge(e dirEntry, expect Sum) (*Late, error) {
	f, _, err := openPlain(e, os.O_RDONLY)
	if errors.Is(err, fs.ErrPermission) {
		return nil, &Error{Op: opRead, Err: err}
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

// Update reads p, passes the content to change (nil if there is no file) and replaces the file by the result. If
// another process wrote in the meantime, it retries a few times and ends with ErrConflict. Equal bytes, or nil, write
// nothing. An error of change is returned and nothing is written. max and the Late are those of Read and Replace.
func (r *Root) Update(p string, max int64, change func(old []byte) ([]byte, error), opts ...Option) (late *Late, err error) {
	for range tries {
		blob, rerr := r.Read(p, max)
		if errors.Is(rerr, fs.ErrNotExist) {
			blob, rerr = Blob{Sum: Absent}, nil
		}
		if rerr != nil {
			return nil, rerr
		}
		// Pass a copy, because an in-place modification would look like no change.
		next, cerr := change(bytes.Clone(blob.Data))
		if cerr != nil {
			return nil, r.fail(opUpdate, p, cerr)
		}
		if next == nil || blob.Sum != Absent && bytes.Equal(next, blob.Data) {
			return nil, nil
		}
		if late, err = r.Replace(p, next, blob.Sum, opts...); !errors.Is(err, ErrConflict) {
			break
		}
	}
	return late, err
}

// Late watches the old inode of a file that was renamed over. A client that had the file open keeps writing into the
// old inode, where no reader sees it. For about two seconds the caller polls Check, merges late content with its own
// edit, and replaces the file again.
//
// A nil Late is valid: it never reports a change.
type Late struct {
	f     *os.File
	stamp Stamp  // when judged
	data  []byte // as judged, then as last reported
}

// Check returns the old file's content if it differs from the judged content, or from what Check last returned. The
// content may be torn (a writer truncates first): call again later.
func (l *Late) Check() (data []byte, changed bool, err error) {
	if l == nil {
		return nil, false, nil
	}
	now, _, err := bounded(l.f, maxCompare)
	if err != nil {
		return nil, false, newError("read replaced file", "", err)
	}
	if bytes.Equal(now, l.data) {
		return nil, false, nil
	}
	l.data = now
	return bytes.Clone(now), true, nil
}

// Close releases the old file.
func (l *Late) Close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// unchanged compares once more, because the caller waited for the disk since the judgement.
func (l *Late) unchanged(e dirEntry) error {
	st, err := e.stat()
	if err != nil || !st.sameFile(l.stamp) {
		return ErrConflict
	}
	now, _, err := bounded(l.f, maxCompare)
	if err == nil && !bytes.Equal(now, l.data) {
		err = ErrConflict
	}
	return err
}
