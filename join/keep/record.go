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

// Folder holds the records and the logs, in the state folder.
const Folder = "agents"

// maxRecord bounds the size of a record file.
const maxRecord = 64 << 10

// Row is one [[agent]] of the configuration, resolved.
type Row struct {
	Name        string
	Project     string   // the project's name
	Dir         string   // the project's folder, absolute
	Command     []string // a program, found in the PATH, and its arguments; never a shell line
	Restart     string
	Protocol    string   // in which Deps.Enroll registers it; "": the default
	Directory   string   // working folder; relative to Dir, "" for Dir itself
	Environment []string // KEY=value, overrides the daemon's own
}

// label names the agent in the log. id identifies the agent, even if its project is renamed.
func (r Row) label() string { return r.Project + "." + r.Name }
func (r Row) id() string    { return r.Dir + "\x00" + r.Name }

// folder is the agent's working folder.
func (r Row) folder() string {
	if filepath.IsAbs(r.Directory) {
		return filepath.Clean(r.Directory)
	}
	return filepath.Join(r.Dir, r.Directory)
}

// checksum changes when the row starts something else. The restart policy is not part of it: it may change without a
// restart. An agent that runs WhenDue ends by itself, so its next life follows a change early enough.
func (r Row) checksum() string {
	h := sha256.New()
	if r.Restart == WhenDue {
		r.Command, r.Environment = nil, nil
	}
	for _, list := range [][]string{r.Command, {r.folder()}, r.Environment} {
		fmt.Fprintf(h, "%q\n", list)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// fileName is the record's file name without extension. Dots in the project's name are escaped, so that two agents
// cannot share a name.
func (r Row) fileName() string { return plain(r.Project, "-_") + "." + plain(r.Name, "-_.") }

// plain escapes characters that a file name or a unit name must not contain.
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

// state is the state of an agent that does not run.
type state string

const (
	active state = ""       // it runs, or must be started
	rested state = "rested" // it ended on purpose
	failed state = "failed" // the operator must act
)

// Record is an agent's record on disk.
type Record struct {
	Version int    `json:"version"` // file format; a newer record is read as far as possible, or its agent would be started twice
	Project string `json:"project"`
	Agent   string `json:"agent"`
	Dir     string `json:"dir"`
	// Protocol is Row.Protocol.
	Protocol string `json:"protocol,omitempty"`
	Row      string `json:"row"` // Row.sum of the row that was started
	// Mark identifies all lives of this agent: STEWARD_KEPT in the environment of its processes. With a life's number
	// appended it is STEWARD_RUN.
	Mark string `json:"mark"`
	// Generation is the latest life known to have begun. Process is its main process, until its end is seen.
	Generation int           `json:"generation"`
	Process    proc.Identity `json:"process,omitzero"`
	Unit       string        `json:"unit,omitempty"` // of the service manager; "" for a session
	Started    time.Time     `json:"started,omitzero"`
	// Intent is the number of a life that may have begun unrecorded. It is on disk before that life begins.
	// See docs/decisions.md, "The next run's number is on disk before the run".
	Intent int       `json:"intent"`
	State  state     `json:"state,omitempty"`
	Since  time.Time `json:"since,omitzero"` // of State
	Boot   string    `json:"boot,omitempty"` // the boot in which State was reached
	// NotBefore is the earliest start of the next life.
	NotBefore time.Time `json:"not_before,omitzero"`
	History   History   `json:"history"`
	Last      *Ending   `json:"last,omitempty"`
	Why       string    `json:"why,omitempty"`
}

// markOf is the mark of one life.
func (r *Record) markOf(generation int) string { return fmt.Sprintf("%s.%d", r.Mark, generation) }

// newMark is the same for every steward with this state folder, so that the agent's processes are found even without a
// record.
func newMark(state string, row Row) string {
	sum := sha256.Sum256([]byte(state + "\x00" + row.Dir + "\x00" + row.Name))
	return hex.EncodeToString(sum[:10])
}

// stateMark is the mark of all agents' processes of one state folder.
func stateMark(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:10])
}

// recordVersion is the version of the record format.
const recordVersion = 1

// store reads and writes the records.
type store struct{ root *jsonfile.Root }

// save writes a record. The write survives a kill of this process; only a lasting write is flushed to survive a power
// cut.
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
	if errors.Is(err, jsonfile.ErrNotExist) { // the folder was removed
		if err = s.root.MkdirAll(Folder, 0o700); err == nil {
			late, err = s.root.Replace(file, data, jsonfile.Any, options...)
		}
	}
	_ = late.Close()
	return err
}

// errBroken: the file holds no usable record.
var errBroken = errors.New("the record is broken")

// read reads a record and changes nothing.
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

// load returns nil for an agent without a usable record; it sets a broken record aside.
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

// all returns every readable record.
func (s store) all() []*Record {
	var found []*Record
	for _, name := range s.names() {
		if r := s.load(name); r != nil {
			found = append(found, r)
		}
	}
	return found
}

// row is the part of the configuration that a record keeps: enough to end an agent whose row is gone.
func (r *Record) row() Row {
	return Row{Name: r.Agent, Project: r.Project, Dir: r.Dir, Protocol: r.Protocol}
}
