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
	dir, name, err := r.parent(p)
	if err != nil {
		return r.fail(opAppend, p, err)
	}
	defer dir.release()
	if err := r.appendIn(dir.folder, name, line, opts); err != nil {
		return r.fail(opAppend, p, err)
	}
	return nil
}

func (r *Root) appendIn(dir folder, name string, line []byte, opts []Option) error {
	wait := durable(opts)
	f, st, err := r.openLog(dir, name)
	if errors.Is(err, fs.ErrNotExist) && !slices.Contains(opts, Existing) {
		if f, st, err = dir.createLog(name); errors.Is(err, fs.ErrExist) {
			f, st, err = r.openLog(dir, name)
		}
	}
	if err != nil {
		return err
	}
	err = appendLine(f, st, line)
	if err == nil && wait {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && st.Size == 0 {
		err = dir.settle(wait)
	}
	return err
}

// OpenAppend opens the plain file p of root for appending.
func OpenAppend(root *Root, p string) (*os.File, error) {
	dir, name, err := root.parent(p)
	if err != nil {
		return nil, root.fail(opAppend, p, err)
	}
	defer dir.release()
	f, _, err := root.openLog(dir.folder, name)
	if err != nil {
		return nil, root.fail(opAppend, p, err)
	}
	return f, nil
}

func (r *Root) openLog(dir folder, name string) (*os.File, Stamp, error) {
	f, st, err := r.openIn(dir, name, os.O_RDWR|os.O_APPEND)
	if err == nil && st.Links > 1 {
		_ = f.Close()
		return nil, Stamp{}, hostile(name, st)
	}
	return f, st, err
}

func (d folder) createLog(name string) (*os.File, Stamp, error) {
	f, err := d.open(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, newFileMode)
	if err != nil {
		return nil, Stamp{}, err
	}
	d.bequeath(f)
	if err := f.Chmod(newFileMode); err != nil {
		_ = f.Close()
		return nil, Stamp{}, err
	}
	st, err := fstat(f)
	return f, st, err
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
