package keep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Folder is where the records and the logs lie, in the state folder.
const Folder = "agents"

// maxRecord bounds what is read of one record.
const maxRecord = 64 << 10

// Row is one [[agent]] of the configuration, as it is used.
type Row struct {
	Name        string
	Project     string   // the project's name
	Dir         string   // the project's folder, absolute
	Command     []string // a program, to be found in the PATH, and its arguments; never a shell line
	Restart     string
	Directory   string   // where it is started; relative to Dir, "" for Dir itself
	Environment []string // KEY=value, over the daemon's own
}

// label is how it is called in the log; id tells agents apart, whatever their projects are called today.
func (r Row) label() string { return r.Project + "." + r.Name }
func (r Row) id() string    { return r.Dir + "\x00" + r.Name }

// folder is where the agent is started.
func (r Row) folder() string {
	if filepath.IsAbs(r.Directory) {
		return filepath.Clean(r.Directory)
	}
	return filepath.Join(r.Dir, r.Directory)
}

// sum tells whether a row still starts the same thing. The restart policy may change without a restart.
func (r Row) sum() string {
	h := sha256.New()
	for _, list := range [][]string{r.Command, {r.folder()}, r.Environment} {
		fmt.Fprintf(h, "%q\n", list)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// fileName is the record's, without its ending. A dot in the project's name would make two agents share one.
func (r Row) fileName() string { return plain(r.Project, "-_") + "." + plain(r.Name, "-_.") }

// plain writes out what may not stand in a file's or a unit's name.
func plain(name, keep string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// state is what an agent does when it does not run.
type state string

const (
	wanted state = ""       // it runs, or is to be started
	rested state = "rested" // it left on purpose
	failed state = "failed" // a human has to know
)

// Record is what is on disk of one agent.
type Record struct {
	Version int    `json:"version"` // of the file; a newer one is read as far as it is understood, or the agent would be started twice
	Project string `json:"project"`
	Agent   string `json:"agent"`
	Dir     string `json:"dir"`
	Row     string `json:"row"` // Row.sum of what was started
	// Mark names all lives of this agent: STEWARD_KEPT in the environment of its processes; with a life's number behind
	// it STEWARD_RUN.
	Mark string `json:"mark"`
	// Generation is the latest life that is known to have begun, and Process its main process, while nobody has seen its end.
	Generation int           `json:"generation"`
	Process    proc.Identity `json:"process,omitzero"`
	Unit       string        `json:"unit,omitempty"` // of the service manager; "" for a session of our own
	Started    time.Time     `json:"started,omitzero"`
	// Intent is the life that may have begun without our knowledge. It is on disk before that life begins.
	Intent int       `json:"intent"`
	State  state     `json:"state,omitempty"`
	Since  time.Time `json:"since,omitzero"` // of State
	Boot   string    `json:"boot,omitempty"` // in which State was reached
	// NotBefore is when the next life may begin.
	NotBefore time.Time `json:"not_before,omitzero"`
	History   History   `json:"history"`
	Last      *Ending   `json:"last,omitempty"`
	Why       string    `json:"why,omitempty"`
}

// markOf is one life's own mark.
func (r *Record) markOf(generation int) string { return fmt.Sprintf("%s.%d", r.Mark, generation) }

// newMark is the same for every steward with this state folder, so that its processes are found without a record too.
func newMark(state string, row Row) string {
	sum := sha256.Sum256([]byte(state + "\x00" + row.Dir + "\x00" + row.Name))
	return hex.EncodeToString(sum[:10])
}

// daemon marks the processes of all agents of one state folder.
func house(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:10])
}

// recordVersion is the version of the files of records.
const recordVersion = 1

// store reads and writes the records.
type store struct{ root *jsonfile.Root }

// save writes a record. A kill of this process cannot undo it; only what must survive a power cut waits for the disk.
func (s store) save(row Row, r *Record, lasting bool) error {
	r.Version = recordVersion
	data, err := jsonfile.Encode(r)
	if err != nil {
		return err
	}
	options := []jsonfile.Option{jsonfile.Volatile}
	if lasting {
		options = nil
	}
	file := path.Join(Folder, row.fileName()+".json")
	late, err := s.root.Replace(file, data, jsonfile.Any, options...)
	if errors.Is(err, jsonfile.ErrNotExist) { // somebody took the folder away
		if err = s.root.MkdirAll(Folder, 0o700); err == nil {
			late, err = s.root.Replace(file, data, jsonfile.Any, options...)
		}
	}
	_ = late.Close()
	return err
}

// errBroken: the file holds no usable record.
var errBroken = errors.New("the record is broken")

// read gives the record in a file, and changes nothing.
func (s store) read(file string) (*Record, error) {
	blob, err := s.root.Read(path.Join(Folder, file), maxRecord)
	if err != nil {
		return nil, err
	}
	var r Record
	if jsonfile.Decode(blob.Data, &r) != nil || r.Mark == "" || r.Agent == "" {
		return nil, errBroken
	}
	return &r, nil
}

// load gives nil for an agent without a usable record; a broken one is set aside.
func (s store) load(file string) *Record {
	r, err := s.read(file)
	if errors.Is(err, errBroken) {
		file = path.Join(Folder, file)
		_ = s.root.Remove(file + ".bad")
		_ = s.root.Rename(file, file+".bad")
	}
	return r
}

func (s store) drop(row Row) { _ = s.root.Remove(path.Join(Folder, row.fileName()+".json")) }

// names lists the files of records.
func (s store) names() []string {
	names, _, err := s.root.List(Folder)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".json") })
}

// all gives every record that can be read.
func (s store) all() []*Record {
	var found []*Record
	for _, name := range s.names() {
		if r := s.load(name); r != nil {
			found = append(found, r)
		}
	}
	return found
}

// row is as much of the configuration as a record remembers: enough to end an agent whose row is gone.
func (r *Record) row() Row { return Row{Name: r.Agent, Project: r.Project, Dir: r.Dir} }
