package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/livhana/steward/protocol"
)

// Entry is one line of the journal: an observation, a decision or a change, and its reason.
type Entry struct {
	At       time.Time        `json:"at"`
	Kind     string           `json:"kind"` // change, verdict, alert, resolve, note
	Subject  protocol.Subject `json:"-"`
	About    string           `json:"subject"`
	Protocol string           `json:"protocol,omitempty"`
	Verb     string           `json:"verb,omitempty"`
	State    string           `json:"state,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Text     string           `json:"text,omitempty"`
	Incident string           `json:"incident,omitempty"`
	Error    string           `json:"error,omitempty"`
	Change   *protocol.Change `json:"change,omitempty"`
}

// The journal keeps 10 MiB × 5.
const (
	journalSize  = 10 << 20
	journalFiles = 5
)

// Journal is the append-only file of entries, rotated by size.
type Journal struct {
	path string
	mu   sync.Mutex
	file *os.File
	size int64
	most int64 // bytes per file
	// again is the size at which a failed rotation is tried again.
	again int64
	// followers get every entry as it is written. A slow follower loses entries; it does not delay the writer.
	followers map[chan Entry]bool
}

// OpenJournal opens or creates the journal at path.
func OpenJournal(path string) (*Journal, error) {
	f, size, err := openJournalFile(path)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &Journal{path: path, file: f, size: size, most: journalSize, followers: map[chan Entry]bool{}}, nil
}

// JournalAt is a journal for reading alone: it opens and creates nothing.
func JournalAt(path string) *Journal { return &Journal{path: path} }

// openJournalFile opens a file for appending. It ends a line that a crash cut off, so that the next entry does not become
// part of it.
func openJournalFile(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte{'\n'})
		}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// Write appends an entry.
func (j *Journal) Write(e Entry) error {
	e.At = e.At.UTC()
	if e.Subject != (protocol.Subject{}) {
		e.About, e.Protocol = e.Subject.String(), e.Subject.Protocol
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for c := range j.followers {
		select {
		case c <- e:
		default:
		}
	}
	var rotated error
	if j.size > 0 && j.size+int64(len(line)) > j.most && j.size >= j.again {
		rotated = j.rotate()
	}
	n, err := j.file.Write(append(line, '\n'))
	j.size += int64(n)
	if err != nil {
		err = fmt.Errorf("write journal: %w", errors.Join(err, j.takeBack(n)))
	}
	return errors.Join(rotated, err)
}

// takeBack removes the part of a line that fitted on a full disk, so that the next line does not become part of it.
func (j *Journal) takeBack(n int) error {
	if n == 0 {
		return nil
	}
	st, err := j.file.Stat()
	if err == nil {
		err = j.file.Truncate(st.Size() - int64(n))
	}
	if err == nil {
		j.size -= int64(n)
	}
	return err
}

// rotate starts a new file. It opens the new file before it moves any old one: without a descriptor, or if the old files
// cannot be moved, the journal keeps growing, and rotate is tried again after another tenth of its size.
func (j *Journal) rotate() error {
	j.again = j.size + j.most/10
	next := j.path + ".next"
	f, size, err := openJournalFile(next)
	if err != nil {
		return fmt.Errorf("rotate journal: %w", err)
	}
	if err := errors.Join(j.shift(), os.Rename(next, j.path)); err != nil {
		f.Close()
		return fmt.Errorf("rotate journal: %w", err)
	}
	j.file.Close()
	j.file, j.size, j.again = f, size, 0
	return nil
}

// shift gives each file the next number and drops the last one. If the current file is missing, the others keep their
// numbers.
func (j *Journal) shift() error {
	if _, err := os.Lstat(j.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := journalFiles - 1; i > 0; i-- {
		if err := os.Rename(j.numbered(i-1), j.numbered(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// numbered is the name of the i-th newest file; 0 is the current one.
func (j *Journal) numbered(i int) string {
	if i == 0 {
		return j.path
	}
	return fmt.Sprintf("%s.%d", j.path, i)
}

// Follow gives every entry that is written from now on, until stop is called.
func (j *Journal) Follow() (entries <-chan Entry, stop func()) {
	c := make(chan Entry, 256)
	j.mu.Lock()
	j.followers[c] = true
	j.mu.Unlock()
	return c, func() {
		j.mu.Lock()
		delete(j.followers, c)
		j.mu.Unlock()
	}
}

// Read gives the last n entries that match, oldest first. It skips lines that a crash cut off.
func (j *Journal) Read(n int, match func(*Entry) bool) ([]Entry, error) {
	var found []Entry
	for i := 0; i < journalFiles && len(found) < n; i++ {
		part, err := readEntries(j.numbered(i), n-len(found), match)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a crash in the middle of a rotation leaves a gap
		}
		if err != nil {
			return found, fmt.Errorf("read journal: %w", err)
		}
		found = append(part, found...)
	}
	return found, nil
}

func readEntries(path string, n int, match func(*Entry) bool) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []Entry
	lines := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		var e Entry
		if len(line) > 0 && json.Unmarshal(line, &e) == nil && match(&e) {
			found = append(found, e)
		}
		if len(found) >= 2*n {
			found = append(found[:0], found[len(found)-n:]...)
		}
		if errors.Is(err, io.EOF) {
			return found[max(0, len(found)-n):], nil
		}
		if err != nil {
			return found, err
		}
	}
}

// Close closes the file. Nothing is written after it.
func (j *Journal) Close() error {
	return j.file.Close()
}
