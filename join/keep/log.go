package keep

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Log is the file with the output of one agent.
type Log struct{ Project, Agent, Dir, Path string }

// Logs lists the logs of the agents on record in a state folder. It needs no keeper and changes nothing.
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

// maxLog is where an agent's log is cut: this much in FILE, and as much of what came before in FILE.1.
const maxLog = 10 << 20

// openLog opens an agent's log for appending. It is a file and no pipe: a pipe would break with this process, and take the
// agent with it.
func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// trimLog keeps a log that has outgrown its bound: the end of it is copied aside, and the file begins anew under its writers,
// who append. What they write between the two is lost.
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
	if err == nil { // a full disk must not keep the log from being cut
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
