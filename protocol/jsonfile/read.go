package jsonfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// DefaultMax is the size limit of a read whose max is 0 or less.
const DefaultMax = 1 << 20

// tries bounds retries while another program modifies the file.
const tries = 5

// Blob is a file's content with the Stamp at which it was read.
type Blob struct {
	Data  []byte
	Stamp Stamp
	Sum   Sum
}

// Read reads a whole file of at most max bytes (0: DefaultMax). The content was identical in two passes, so a document
// is never mixed with the one that a truncating writer puts in its place; a file that keeps changing is ErrTorn. The
// content is not interpreted: an empty file is no error here.
//
// Errors: ErrNotExist, ErrPermission, ErrHostile, ErrTooBig, ErrTorn.
func (r *Root) Read(p string, max int64) (blob Blob, err error) {
	err = r.at(opRead, p, func(e dirEntry) error {
		f, _, err := openPlain(e, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		data, st, err := steady(f, limit(max))
		if err == nil {
			blob = Blob{data, st, SumOf(data)}
		}
		return err
	})
	return blob, err
}

// Load reads p and parses it as one JSON object. The Blob is valid even if the document is not (ErrTorn, ErrBad).
func (r *Root) Load(p string, max int64) (Object, Blob, error) {
	blob, err := r.Read(p, max)
	if err != nil {
		return Object{}, Blob{}, err
	}
	o, err := Parse(blob.Data)
	return o, blob, r.fail(opParse, p, err)
}

// Stat examines p without opening it. A folder is no error (Mode.IsDir); anything that is neither a folder nor a plain
// file is reported as ErrHostile together with its Stamp.
func (r *Root) Stat(p string) (st Stamp, err error) {
	if p == "." {
		st, err = fstat(r.top.f)
		return st, r.fail(opStat, p, err)
	}
	err = r.at(opStat, p, func(e dirEntry) (err error) {
		if st, err = e.stat(); err == nil && !st.Mode.IsDir() && !st.Mode.IsRegular() {
			err = hostile(e.name, st)
		}
		return err
	})
	return st, err
}

// Is reports whether the name p still refers to the open file f.
func (r *Root) Is(p string, f *os.File) bool {
	named, err := r.Stat(p)
	own, ferr := fstat(f)
	return err == nil && ferr == nil && named.sameFile(own)
}

// ReadAt reads at most max bytes (0: DefaultMax) of a growing file from offset on. No bytes and no error means that
// nothing new is there; a Stamp.Size below offset means that the file was truncated or replaced, so offset is invalid.
func (r *Root) ReadAt(p string, offset, max int64) (data []byte, st Stamp, err error) {
	err = r.at(opRead, p, func(e dirEntry) error {
		f, now, err := openPlain(e, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		st = now
		if n := min(limit(max), st.Size-offset); n > 0 && offset >= 0 {
			data, err = readAll(f, offset, n)
		}
		return err
	})
	return data, st, err
}

// openPlain opens a plain file. It checks before opening, because opening a device can have side effects, and again
// afterwards, because the entry may have been swapped in between.
func openPlain(e dirEntry, flag int) (*os.File, Stamp, error) {
	for range tries {
		want, err := e.stat()
		if err == nil && !want.Mode.IsRegular() {
			err = hostile(e.name, want)
		}
		if err != nil {
			return nil, Stamp{}, err
		}
		f, err := e.open(e.name, flag, 0)
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
	return nil, Stamp{}, fmt.Errorf("%w: it was replaced at every attempt to open it", ErrTorn)
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
