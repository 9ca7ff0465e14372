package keep

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// mostTail bounds one read of a log: the keeper truncates the log at about this size.
const mostTail = 10 << 20

// Tail reads the data appended to a log. It reads a truncated or replaced log from the beginning.
type Tail struct {
	Path string
	file *os.File
	at   int64
}

// More returns the data appended since the last call, at most its last 10 MiB.
func (t *Tail) More() ([]byte, error) {
	now, err := os.Stat(t.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the agent's next start recreates the log
	}
	if err != nil {
		return nil, err
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
	t.at = max(t.at, now.Size()-mostTail)
	text, err := io.ReadAll(io.NewSectionReader(t.file, t.at, now.Size()-t.at))
	t.at += int64(len(text))
	return text, err
}

// Exists reports whether the log was found.
func (t *Tail) Exists() bool { return t.file != nil }

func (t *Tail) Close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
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
