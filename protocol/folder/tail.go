package folder

import (
	"bytes"
	"fmt"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Tail reads an append-only log: each whole line once, in order. Its owner sets the first three fields.
type Tail struct {
	File string // relative to Base
	Max  int64  // maximum length of a line and of one read, in bytes
	Last int64  // how much of a new log is read, in bytes from its end; 0: all

	begun  bool
	cut    bool // the log is longer than Last: its beginning was not read
	inode  uint64
	offset int64
	torn   bool   // the offset is inside a line that is skipped
	end    []byte // the last bytes before the offset
}

// Read passes every new line to take, with its newline and its offset in the file; a line longer than Max is passed as
// nil. It calls restart before the first line of a log that was replaced or rewritten. An error other than a missing file
// is tracked by f.Patience; what was read before it counts.
func (t *Tail) Read(f *Folder, restart func(), take func(line []byte, at int64)) error {
	st, err := f.Root.Stat(t.File)
	if err == nil && st.Mode.IsDir() {
		err = fmt.Errorf("%w: a folder", jsonfile.ErrHostile)
	}
	if err == nil {
		err = t.read(f.Root, st, restart, take)
	}
	if err != nil {
		f.Patience.Unreadable(t.File, err)
		return err
	}
	f.Patience.Clear(t.File)
	return nil
}

// Seen reports whether the log has ever existed.
func (t *Tail) Seen() bool { return t.begun }

// Cut reports whether the beginning of the log was not read, because the log is longer than Last.
func (t *Tail) Cut() bool { return t.cut }

func (t *Tail) read(root *jsonfile.Root, st jsonfile.Stamp, restart func(), take func([]byte, int64)) error {
	if t.begun && (st.Inode != t.inode || st.Size < t.offset || st.Size > t.offset && !t.goesOn(root)) {
		*t = Tail{File: t.File, Max: t.Max, Last: t.Last}
		restart()
	}
	if !t.begun {
		t.begun, t.inode = true, st.Inode
		if t.Last > 0 && st.Size > t.Last {
			t.offset, t.torn, t.cut = st.Size-t.Last, true, true
		}
	}
	for t.offset < st.Size {
		data, _, err := root.ReadAt(t.File, t.offset, t.Max)
		if err != nil {
			return err
		}
		if !t.split(data, take) {
			break // the last line is still being written
		}
	}
	return nil
}

// goesOn reports whether the log still contains what was read last.
func (t *Tail) goesOn(root *jsonfile.Root) bool {
	if len(t.end) == 0 {
		return true
	}
	now, _, err := root.ReadAt(t.File, t.offset-int64(len(t.end)), int64(len(t.end)))
	return err != nil || bytes.Equal(now, t.end)
}

// endKept is how much of a log's end is remembered.
const endKept = 512

// split passes on the whole lines of data. It reports whether anything was read.
func (t *Tail) split(data []byte, take func([]byte, int64)) bool {
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	if len(whole) == 0 {
		if int64(len(data)) < t.Max {
			return false
		}
		if !t.torn {
			take(nil, t.offset)
		}
		t.offset, t.torn, t.end = t.offset+int64(len(data)), true, nil
		return true
	}
	for line := range bytes.Lines(whole) {
		if !t.torn {
			take(line, t.offset)
		}
		t.torn = false
		t.offset += int64(len(line))
	}
	t.end = bytes.Clone(whole[max(len(whole)-endKept, 0):])
	return true
}
