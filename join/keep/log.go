package keep

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Log is an agent's output file.
type Log struct{ Project, Agent, Dir, Path string }

// Logs lists the logs of the recorded agents in a state folder. It needs no keeper and changes nothing.
func Logs(state string) ([]Log, error) {
	root, err := jsonfile.Open(state)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer root.Close()
	s := store{root}
	var logs []Log
	for _, name := range s.names() {
		if r, err := s.read(name); err == nil {
			logs = append(logs, Log{r.Project, r.Agent, r.Dir, filepath.Join(state, Folder, r.row().fileName()+".log")})
		}
	}
	return logs, nil
}

// maxLog is the size at which an agent's log is truncated: at most this much in FILE, and as much of the older output
// in FILE.1.
const maxLog = 10 << 20

// openLog opens an agent's log for appending. It is a file, because a pipe would break when this process ends, and the
// agent with it.
func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// trimLog bounds a log: it copies the end aside and truncates the file while its writers keep it open. That is safe
// because they append. Output between the copy and the truncation is lost.
func trimLog(path string) error {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() <= maxLog {
		return ignoreMissing(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	aside, err := os.OpenFile(path+".1", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil { // truncate the log even if the disk is full
		_, err = io.Copy(aside, io.NewSectionReader(f, max(0, st.Size()-maxLog), maxLog))
		err = errors.Join(err, aside.Close())
	}
	return errors.Join(err, f.Truncate(0))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Tail reads the data appended to a log. It reads a truncated or replaced log from the beginning.
type Tail struct {
	Path string
	file *os.File
	at   int64
}

// More returns the data appended since the last call, at most its last 10 MiB.
func (t *Tail) More() ([]byte, error) {
	now, err := os.Stat(t.Path)
	if err != nil {
		return nil, ignoreMissing(err) // the agent's next start recreates the log
	}
	if t.file != nil {
		if mine, err := t.file.Stat(); err != nil || !os.SameFile(mine, now) {
			t.Close()
		}
	}
	if t.file == nil {
		if t.file, err = os.Open(t.Path); err != nil {
			return nil, err
		}
		t.at = 0
	}
	if now.Size() < t.at {
		t.at = 0
	}
	t.at = max(t.at, now.Size()-maxLog)
	text, err := io.ReadAll(io.NewSectionReader(t.file, t.at, now.Size()-t.at))
	t.at += int64(len(text))
	return text, err
}

// Exists reports whether the log was found.
func (t *Tail) Exists() bool { return t.file != nil }

// Close ends the reading; More begins again.
func (t *Tail) Close() {
	t.file.Close() // a nil file is no error that matters
	t.file = nil
}

// TailOf reads the end of a file.
func TailOf(path string) ([]byte, error) {
	t := Tail{Path: path}
	defer t.Close()
	return t.More()
}

// LastLines returns the last n lines of a text.
func LastLines(text []byte, n int) []string {
	if len(text) == 0 {
		return []string{}
	}
	lines := strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n")
	return lines[max(0, len(lines)-n):]
}
