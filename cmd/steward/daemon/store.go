package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor/decide"
)

// stateVersion is the version of the files that steward writes into its state folder. A file without a version predates
// versions and is still read.
const stateVersion = 1

// maxState bounds a file of the state folder, for writing as well as for reading, so that steward can read what it
// wrote.
const maxState = 256 << 20

// badState is a file of the state folder whose content this steward cannot use.
type badState struct {
	name string
	err  error
}

func (b *badState) Error() string { return "read " + b.name + ": " + b.err.Error() }
func (b *badState) Unwrap() error { return b.err }

// errNewer marks a file of a later version. Its content is not damaged, only unknown here.
var errNewer = errors.New("it was written by a newer steward")

// Newer rejects a file that a later version has written. The run record and the snapshot store the program's version
// under "version", so the version of these files is called "format".
func Newer(data []byte) error {
	var head struct {
		Version any `json:"version"`
		Format  any `json:"format"`
	}
	_ = json.Unmarshal(data, &head) // the decoder of the whole file finds damage
	for _, v := range []any{head.Version, head.Format} {
		if n, ok := v.(float64); ok && n > stateVersion {
			return fmt.Errorf("%w (file version %v, this steward knows %d)", errNewer, n, stateVersion)
		}
	}
	return nil
}

// readState reads a file of the state folder; a missing file yields the zero value. Unusable content is a *badState;
// every other error says nothing about the content.
func readState[T any](root *jsonfile.Root, name string) (v T, err error) {
	blob, err := root.Read(name, maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nil
	case errors.Is(err, jsonfile.ErrTooBig):
		return v, &badState{name, err}
	case err != nil:
		return v, err
	}
	if err = Newer(blob.Data); err == nil {
		err = json.Unmarshal(blob.Data, &v)
	}
	if err != nil {
		return *new(T), &badState{name, err}
	}
	return v, nil
}

// recoverState is readState for the daemon. It sets unusable content aside and returns the zero value. A file that cannot be
// read at the moment may be intact: the start fails, the file stays, and the service manager tries again.
func recoverState[T any](s *store, name string) (T, error) {
	v, err := readState[T](s.root, name)
	if bad := (*badState)(nil); errors.As(err, &bad) {
		return v, s.setAside(bad)
	}
	if err != nil {
		return v, fmt.Errorf("%w; nothing was changed: start steward again when %s can be read", err, name)
	}
	return v, nil
}

func (s *store) put(name string, data []byte) error {
	if len(data) > maxState {
		return fmt.Errorf("write %s: it has %d bytes, more than the %d that are read back", name, len(data), maxState)
	}
	late, err := s.root.Replace(name, data, jsonfile.Any)
	_ = late.Close()
	return err
}

// mostKept is how many files of one name are kept aside. Once all names are taken, the newest file replaces the last:
// the first ones show how the trouble began.
const mostKept = 10

// setAside renames a file that cannot be used, and tells the operator. See docs/decisions.md, "A state file is set aside only for its content".
func (s *store) setAside(bad *badState) error {
	kept, err := keptName(s.root, bad.name)
	if err == nil {
		err = s.root.Rename(bad.name, kept)
	}
	if err != nil {
		return fmt.Errorf("set %s aside (%w): %w", bad.name, bad.err, err)
	}
	s.log.Error("state file set aside", "file", bad.name, "kept", kept, "error", bad.err)
	return s.tell(keptAlert(bad, kept))
}

// keptName returns a free name for a file that is set aside. If all names are taken, it removes the last file.
func keptName(root *jsonfile.Root, name string) (string, error) {
	for n := 1; ; n++ {
		kept := name + ".bad"
		if n > 1 {
			kept = fmt.Sprintf("%s.bad%d", name, n)
		}
		switch _, err := root.Stat(kept); {
		case errors.Is(err, fs.ErrNotExist):
			return kept, nil
		case n == mostKept:
			return kept, root.Remove(kept)
		case err != nil && !errors.Is(err, jsonfile.ErrHostile):
			return "", err
		}
	}
}

// withoutIt says what steward does without a file that it had to set aside.
var withoutIt = map[string]string{
	MemoryFile: "Silences are counted from now, and work that ended before this start is history. Pauses, holds and incidents lie in files of " +
		"their own and stand; the attempts of tasks are read from the projects' files.",
	learntFile: "The costs of tasks are learnt again.",
}

// incidentFileAlert reports that the file of an incident was set aside: its question may be asked again.
func incidentFileAlert(f protocol.Fault) rules.Alert {
	name := filepath.Base(f.Path)
	a := unusableAlert(name, "incidents", f.Path, f.Since)
	a.Summary = "the file of an incident could not be used: " + name
	a.Detail = fmt.Sprintf("%s; %s. An answer or acknowledgement in it is not in force: the incident is raised again if its cause lasts.", f.Problem, f.Hint)
	return a
}

// keptAlert reports that a file of the state folder was set aside.
func keptAlert(bad *badState, kept string) rules.Alert {
	how := "damaged"
	if errors.Is(bad.err, errNewer) {
		how = "written by a newer steward"
	}
	a := unusableAlert(bad.name, bad.name, kept, time.Now())
	a.Summary = "steward's " + bad.name + " was " + how + ", and was set aside"
	a.Detail = fmt.Sprintf("%v. The file is kept as %s in the state folder. %s", bad.err, kept, withoutIt[bad.name])
	return a
}

// unusableAlert is an alert about a file that cannot be used and is kept under another path.
func unusableAlert(name, part, path string, since time.Time) rules.Alert {
	a := ownAlert("state_set_aside", protocol.Medium, part)
	a.Lasting, a.Code, a.Occurrence = true, name, path+" "+since.UTC().Format(time.RFC3339Nano)
	a.Options = []rules.Option{{ID: decide.OptionDone, Label: "Taken care of"}}
	return a
}

const (
	MemoryFile   = "memory.json"
	learntFile   = "learnt.json"
	SnapshotFile = "status.json"
	JournalFile  = "journal.jsonl"
)

// store holds the files of the state folder in which steward remembers.
type store struct {
	*reports
	dir    string
	root   *jsonfile.Root
	learnt int64 // the mark of the costs stored in learnt.json
}

// lessons is learnt.json. A file without a version predates versions: its costs are at the top level.
type lessons struct {
	Version int             `json:"version"`
	Costs   capacity.Learnt `json:"costs"`
}

func (l *lessons) UnmarshalJSON(data []byte) error {
	type plain lessons
	if err := json.Unmarshal(data, (*plain)(l)); err != nil {
		return err
	}
	if l.Version > 0 {
		return nil
	}
	return json.Unmarshal(data, &l.Costs)
}

// save stores the loop's memory durably. The costs of work go to a file of their own: they change rarely, and outlive a
// memory that has to be set aside. See docs/decisions.md, "Learnt costs lie in a file of their own".
func (s *store) save(m decide.Memory) error {
	learnt := m.Gate.Learnt
	m.Gate.Learnt, m.Version = nil, stateVersion
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if err := s.put(MemoryFile, data); err != nil {
		return err
	}
	if mark := learnt.Mark(); mark != s.learnt {
		data, err := json.Marshal(lessons{stateVersion, learnt})
		if err == nil {
			err = s.put(learntFile, data)
		}
		if err != nil {
			return err
		}
		s.learnt = mark
	}
	return nil
}

// remembered reads what the last run saved; a missing file means an empty memory.
func (s *store) remembered() (decide.Memory, error) {
	m, err := recoverState[decide.Memory](s, MemoryFile)
	if err != nil {
		return m, err
	}
	l, err := recoverState[lessons](s, learntFile)
	if err != nil {
		return m, err
	}
	s.learnt = l.Costs.Mark()
	m.Gate.Learnt = l.Costs.Sound()
	return m, nil
}

// Recall reads the same for a read-only command: it changes nothing, and reports an unusable memory on warn.
func Recall(state *jsonfile.Root, warn io.Writer) decide.Memory {
	m, err := readState[decide.Memory](state, MemoryFile)
	if err != nil {
		fmt.Fprintf(warn, "steward: judged without the memory of the last run: %s\n", terminal.OneWord(terminal.ErrorText(err)))
	}
	l, _ := readState[lessons](state, learntFile)
	m.Gate.Learnt = l.Costs.Sound()
	return m
}
