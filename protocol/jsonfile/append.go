package jsonfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Append adds one line to a log that other processes may append to as well, in a single write with the newline. If the
// last line is unfinished, Append ends it first, so a torn write damages only its own line; readers must skip blank
// lines. A missing file is created with mode 0644, unless Existing is set. The line may contain a newline only at its
// end.
//
// A file with more than one hard link is always ErrHostile here: the bytes would also appear under the other name,
// which may be anywhere.
func (r *Root) Append(p string, line []byte, opts ...Option) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) == 0 || bytes.ContainsAny(line, "\r\n") {
		return r.fail(opAppend, p, fmt.Errorf("%w: a log record is one line", ErrShape))
	}
	return r.at(opAppend, p, func(e dirEntry) error {
		f, st, err := openLog(e, !slices.Contains(opts, Existing))
		if err != nil {
			return err
		}
		err = appendLine(f, st, line)
		if err == nil && durable(opts) {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err == nil && st.Size == 0 {
			err = settle(e.folder, durable(opts))
		}
		return err
	})
}

func openLog(e dirEntry, create bool) (f *os.File, st Stamp, err error) {
	const flag = os.O_RDWR | os.O_APPEND
	for range tries {
		f, st, err = openPlain(e, flag)
		if create && errors.Is(err, fs.ErrNotExist) {
			if f, err = openNew(e, flag, newFileMode); err == nil {
				st, err = fstat(f)
			}
		}
		if !errors.Is(err, fs.ErrExist) { // else another process created it in between
			break
		}
	}
	if err == nil && st.Links > 1 {
		_ = f.Close()
		return nil, st, hostile(e.name, st)
	}
	return f, st, err
}

// OpenAppend opens the plain file p of root for appending.
func OpenAppend(root *Root, p string) (f *os.File, err error) {
	err = root.at(opAppend, p, func(e dirEntry) (err error) {
		f, _, err = openLog(e, false)
		return err
	})
	return f, err
}

// openNew creates a file with exactly this mode whatever the umask.
func openNew(e dirEntry, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := e.open(e.name, flag|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	bequeath(e.folder, f)
	if err := f.Chmod(mode); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func appendLine(f *os.File, st Stamp, line []byte) error {
	torn, err := endsTorn(f, st)
	if err != nil {
		return err
	}
	record := make([]byte, 0, len(line)+2)
	if torn {
		record = append(record, '\n')
	}
	record = append(append(record, line...), '\n')
	if err := reserve(f, st.Size, len(record)); err != nil {
		return err
	}
	_, err = f.Write(record)
	return err
}

// endsTorn checks more than once: while another write crosses a page, its first part can be visible alone for a moment,
// and ending that part would make a blank line.
func endsTorn(f *os.File, st Stamp) (bool, error) {
	for range tries {
		last := []byte{'\n'}
		if st.Size > 0 {
			if _, err := f.ReadAt(last, st.Size-1); err != nil && err != io.EOF {
				return false, err
			}
		}
		if last[0] == '\n' {
			return false, nil
		}
		var err error
		if st, err = fstat(f); err != nil {
			return false, err
		}
	}
	return true, nil
}

// OpenLock opens the plain file p for locking and creates it if it is missing, but never its folder. Every user who may
// write in that folder may take the lock.
func (r *Root) OpenLock(p string) (lock *os.File, err error) {
	err = r.at(opLock, p, func(e dirEntry) error {
		for range tries {
			lock, err = openLock(e)
			if errors.Is(err, fs.ErrNotExist) {
				lock, err = openNew(e, os.O_RDWR, lockMode(e.folder))
			}
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		return ErrConflict
	})
	return lock, err
}

// openLock asks for the least access that works: read access is enough for a lock on a local disk, but NFS needs a
// writable file.
func openLock(e dirEntry) (*os.File, error) {
	f, st, err := openPlain(e, os.O_RDWR)
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		f, _, err = openPlain(e, os.O_RDONLY)
		return f, err
	}
	if err != nil {
		return nil, err
	}
	if mode := lockMode(e.folder) | st.Mode.Perm(); mode != st.Mode.Perm() {
		_ = f.Chmod(mode) // an older lock file, closed to other users; only its owner may change that
	}
	return f, nil
}

// lockMode grants access to a lock to all users who may write in its folder.
func lockMode(d folder) fs.FileMode {
	st, err := fstat(d.f)
	if err != nil {
		return 0o600
	}
	others := st.Mode.Perm() & 0o022
	return 0o600 | others | others<<1
}
