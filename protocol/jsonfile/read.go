package jsonfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// DefaultMax is the size limit of a read whose max is 0 or less.
const DefaultMax = 1 << 20

// tries bounds retries while another program modifies the file.
const tries = 5

// Read reads a whole file of at most max bytes (0: DefaultMax). The content was identical in two passes, so a document
// is never mixed with the one that a truncating writer puts in its place; a file that keeps changing is ErrTorn. The
// content is not interpreted: an empty file is no error here.
//
// Errors: ErrNotExist, ErrPermission, ErrHostile, ErrTooBig, ErrTorn.
func (r *Root) Read(p string, max int64) (Blob, error) {
	f, blob, err := r.openRead(p, max)
	if err != nil {
		return Blob{}, r.fail(opRead, p, err)
	}
	_ = f.Close()
	return blob, nil
}

// Load reads p and parses it as one JSON object. The Blob is valid even if the document is not (ErrTorn, ErrBad).
func (r *Root) Load(p string, max int64) (Object, Blob, error) {
	blob, err := r.Read(p, max)
	if err != nil {
		return Object{}, Blob{}, err
	}
	o, err := Parse(blob.Data)
	if err != nil {
		return Object{}, blob, r.fail(opParse, p, err)
	}
	return o, blob, nil
}

// Stat examines p without opening it. A folder is no error (Mode.IsDir); anything that is neither a folder nor a plain
// file is reported as ErrHostile together with its Stamp.
func (r *Root) Stat(p string) (Stamp, error) {
	if p == "." {
		st, err := r.top.stat()
		if err != nil {
			return Stamp{}, r.fail(opStat, p, err)
		}
		return st, nil
	}
	dir, name, err := r.parent(p)
	if err != nil {
		return Stamp{}, r.fail(opStat, p, err)
	}
	defer dir.release()
	st, err := dir.lstat(name)
	if err != nil {
		return Stamp{}, r.fail(opStat, p, err)
	}
	if !st.Mode.IsDir() {
		err = r.plain(name, st)
	}
	if err != nil {
		return st, r.fail(opStat, p, err)
	}
	return st, nil
}

// List returns the names in the folder p ("." is the root), unordered, and the folder's Stamp from before the read: if
// the Stamp was Settled and is equal later, no entry has been added or removed.
func (r *Root) List(p string) ([]string, Stamp, error) {
	d, err := r.descend(p)
	if err != nil {
		return nil, Stamp{}, r.fail(opList, p, err)
	}
	defer d.release()
	st, err := d.stat()
	if err != nil {
		return nil, Stamp{}, r.fail(opList, p, err)
	}
	names, err := d.names()
	if err != nil {
		return nil, Stamp{}, r.fail(opList, p, err)
	}
	return names, st, nil
}

// Each passes every name in the folder p to take, unordered, and returns the Stamp that List would. The bytes of a name
// are valid until take returns: listing 100,000 names makes no garbage. On an error only some names were passed.
func (r *Root) Each(p string, take func(name []byte)) (Stamp, error) {
	d, err := r.descend(p)
	if err != nil {
		return Stamp{}, r.fail(opList, p, err)
	}
	defer d.release()
	st, err := d.stat()
	if err == nil {
		err = d.each(take)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the folder was removed while it was read", ErrTorn)
		}
	}
	if err != nil {
		return Stamp{}, r.fail(opList, p, err)
	}
	return st, nil
}

// ReadAt reads at most max bytes (0: DefaultMax) of a growing file from offset on. No bytes and no error means that
// nothing new is there; a Stamp.Size below offset means that the file was truncated or replaced, so offset is invalid.
func (r *Root) ReadAt(p string, offset, max int64) ([]byte, Stamp, error) {
	f, st, err := r.openPlain(p, os.O_RDONLY)
	if err != nil {
		return nil, Stamp{}, r.fail(opRead, p, err)
	}
	defer f.Close()
	n := min(limit(max), st.Size-offset)
	if n <= 0 || offset < 0 {
		return nil, st, nil
	}
	data, err := readAll(f, offset, n)
	if err != nil {
		return nil, Stamp{}, r.fail(opRead, p, err)
	}
	return data, st, nil
}

// openRead is Read with the file left open.
func (r *Root) openRead(p string, max int64) (*os.File, Blob, error) {
	f, _, err := r.openPlain(p, os.O_RDONLY)
	if err != nil {
		return nil, Blob{}, err
	}
	data, st, err := steady(f, limit(max))
	if err != nil {
		_ = f.Close()
		return nil, Blob{}, err
	}
	return f, Blob{data, st, SumOf(data)}, nil
}

// openPlain opens p if it is a plain file. It checks before opening, because opening a device can have side effects,
// and again afterwards, because the entry may have been swapped in between.
func (r *Root) openPlain(p string, flag int) (*os.File, Stamp, error) {
	dir, name, err := r.parent(p)
	if err != nil {
		return nil, Stamp{}, err
	}
	defer dir.release()
	return r.openIn(dir.folder, name, flag)
}

func (r *Root) openIn(dir folder, name string, flag int) (*os.File, Stamp, error) {
	for range tries {
		want, err := dir.lstat(name)
		if err != nil {
			return nil, Stamp{}, err
		}
		if err := r.plain(name, want); err != nil {
			return nil, Stamp{}, err
		}
		f, err := dir.open(name, flag, 0)
		if isLink(err) || errors.Is(err, fs.ErrNotExist) {
			continue // swapped in between: check again
		}
		if err != nil {
			return nil, Stamp{}, err
		}
		got, err := fstat(f)
		if err == nil && got.Mode.IsRegular() && got.sameFile(want) {
			return f, got, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, Stamp{}, err
		}
	}
	return nil, Stamp{}, fmt.Errorf("%w: it was replaced with every look", ErrTorn)
}

func (r *Root) plain(name string, st Stamp) error {
	if !st.Mode.IsRegular() || r.OneLink && st.Links > 1 {
		return hostile(path.Base(name), st)
	}
	return nil
}

// steady reads f until two passes agree. The Stamp, taken before both, is not enough: it moves in steps of
// milliseconds, and a writer is faster.
func steady(f *os.File, max int64) ([]byte, Stamp, error) {
	data, st, err := bounded(f, max)
	for range 4 * tries {
		if err != nil {
			return nil, Stamp{}, err
		}
		again, now, rerr := bounded(f, max)
		if rerr == nil && now.Size == int64(len(again)) && bytes.Equal(data, again) {
			return data, st, nil
		}
		data, st, err = again, now, rerr
	}
	return nil, Stamp{}, fmt.Errorf("%w: it changed with every read", ErrTorn)
}

// bounded reads the whole of f, at most max bytes, and its Stamp from just before.
func bounded(f *os.File, max int64) ([]byte, Stamp, error) {
	st, err := fstat(f)
	if err != nil {
		return nil, Stamp{}, err
	}
	if st.Size > max {
		return nil, Stamp{}, fmt.Errorf("%w: %d bytes, limit %d", ErrTooBig, st.Size, max)
	}
	data, err := readAll(f, 0, st.Size+1)
	return data, st, err
}

func readAll(f *os.File, offset, n int64) ([]byte, error) {
	buf := make([]byte, n)
	got, err := f.ReadAt(buf, offset)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return buf[:got], nil
}

func limit(max int64) int64 {
	if max <= 0 {
		return DefaultMax
	}
	return max
}
