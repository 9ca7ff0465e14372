package escalate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// maxFile is the maximum size of an incident file that is read; steward's own files are far smaller.
const maxFile = 1 << 20

// maxRev is larger than any real revision; larger values in a file could overflow.
const maxRev = 1 << 30

// fileVersion is the version of an incident file. A file without a version is of version 1.
const fileVersion = 1

// errContent marks a file whose content is not an incident. Any other error says nothing about the content.
var errContent = errors.New("no incident")

// files is what a folder of incidents has.
type files struct {
	incidents []Incident
	bad       map[string]error // by name: files whose content is not an incident
	drafts    []string         // left over from a crash
}

// readAll reads the files of a folder. It returns an error as well if a file cannot be read at the moment.
func readAll(dir string) (f files, err error) {
	root, err := jsonfile.Open(dir)
	if err != nil {
		return f, fmt.Errorf("read the incidents: %w", err)
	}
	defer root.Close()
	names, _, err := root.List(".")
	if err != nil {
		return f, fmt.Errorf("read the incidents: %w", err)
	}
	slices.Sort(names)
	f.bad = map[string]error{}
	for _, name := range names {
		key, ours := strings.CutSuffix(name, ".json")
		switch {
		case jsonfile.IsDraft([]byte(name)):
			f.drafts = append(f.drafts, name)
			continue
		case !ours:
			continue
		}
		i, problem := read(root, key)
		switch {
		case problem == nil:
			f.incidents = append(f.incidents, i)
		case errors.Is(problem, errContent):
			f.bad[name] = problem
		case !errors.Is(problem, fs.ErrNotExist) && err == nil:
			err = fmt.Errorf("read the incident %s: %w; nothing was changed", name, problem)
		}
	}
	return f, err
}

// load reads all incidents in a folder. A file whose content cannot be used is set aside and reported. If a file
// cannot be read at the moment, nothing is loaded or moved, because it may contain an operator's answer.
func load(dir string) ([]Incident, []protocol.Fault, error) {
	f, err := readAll(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range f.drafts {
		os.Remove(filepath.Join(dir, name)) // nothing refers to it
	}
	var faults []protocol.Fault
	for _, name := range slices.Sorted(maps.Keys(f.bad)) {
		faults = append(faults, setAside(filepath.Join(dir, name), f.bad[name]))
	}
	return f.incidents, faults, nil
}

// ReadAll reads incidents that another process may have open, and changes nothing. Unreadable files are
// skipped.
func ReadAll(dir string) []Incident {
	f, _ := readAll(dir)
	return f.incidents
}

// ReadHeads reads the heads of the incidents as ReadAll does.
func ReadHeads(dir string) map[string]rules.Head { return ReadIncidents(dir).Heads() }

// ReadIncidents returns what ReadAll finds, read-only: changes to it cannot be written.
func ReadIncidents(dir string) *Incidents {
	l := newIncidents(dir)
	l.put = func(string, string, []byte) error { return errors.New("these incidents are only read") }
	for _, i := range ReadAll(dir) {
		l.publish(i)
	}
	return l
}

// read reads the incident with that key from its folder.
func read(root *jsonfile.Root, key string) (Incident, error) {
	blob, err := root.Read(key+".json", maxFile)
	if errors.Is(err, jsonfile.ErrHostile) || errors.Is(err, jsonfile.ErrTooBig) {
		return Incident{}, fmt.Errorf("%w: %w", errContent, err)
	}
	if err != nil {
		return Incident{}, err
	}
	i, err := decode(key, blob.Data)
	if err != nil {
		err = fmt.Errorf("%w: %w", errContent, err)
	}
	return i, err
}

// setAside renames an unusable file, so that a new incident can use the key.
func setAside(path string, problem error) protocol.Fault {
	f := protocol.Fault{Path: path, Problem: fmt.Sprintf("this incident cannot be read: %v", problem)}
	if info, err := os.Lstat(path); err == nil {
		f.Since = info.ModTime().UTC()
	}
	aside := path + ".bad"
	for n := 2; exists(aside); n++ {
		aside = fmt.Sprintf("%s.bad%d", path, n)
	}
	if err := os.Rename(path, aside); err != nil {
		f.Hint = fmt.Sprintf("move it out of the folder by hand (%v)", err)
		return f
	}
	f.Hint = "it is kept as " + filepath.Base(aside)
	return f
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// decode reads one incident file and rejects impossible values.
func decode(key string, b []byte) (Incident, error) {
	var i Incident
	if err := json.Unmarshal(b, &i); err != nil {
		return Incident{}, err
	}
	if err := i.check(key); err != nil {
		return Incident{}, err
	}
	i.Version = 0 // the version belongs to the file; encode sets it
	if i.Options == nil {
		i.Options = []rules.Option{}
	}
	if i.Deliveries == nil {
		i.Deliveries = []Delivery{}
	}
	return i, nil
}

func (i Incident) check(key string) error {
	switch {
	case !keyFits(key):
		return errors.New("its name is no incident's key")
	case i.Version > fileVersion:
		return fmt.Errorf("it was written by a newer steward (file version %d, this steward knows %d)", i.Version, fileVersion)
	case i.Key != key:
		return fmt.Errorf("its key %.40q is not its name", i.Key)
	case !slices.Contains([]rules.State{rules.Raised, rules.Acked, rules.Snoozed, rules.Resolved}, i.State):
		return fmt.Errorf("its state %.40q is unknown", i.State)
	case !rules.SeverityKnown(i.Severity):
		return fmt.Errorf("its severity %.40q is unknown", i.Severity)
	case i.Rev < 1 || i.Count < 1 || i.Opened < 1 || i.Opened > i.Rev || i.Rev > maxRev || i.Count > maxRev:
		return fmt.Errorf("rev %d, count %d, opened %d cannot be", i.Rev, i.Count, i.Opened)
	case i.Notified < 0 || i.Notified > i.Notice || i.Notice > i.Rev:
		return fmt.Errorf("rev %d, notice %d, notified %d cannot be", i.Rev, i.Notice, i.Notified)
	}
	return nil
}

// keyFits reports whether key is valid. It keeps paths out of file names.
func keyFits(key string) bool {
	return len(key) >= 8 && len(key) <= 64 && strings.Trim(key, "0123456789abcdef") == ""
}

func encode(i Incident) ([]byte, error) {
	i.Version = fileVersion
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(i); err != nil {
		return nil, err
	}
	if buf.Len() > maxFile {
		return nil, fmt.Errorf("it has %d bytes, more than %d", buf.Len(), maxFile)
	}
	return buf.Bytes(), nil
}

// put writes a file atomically and durably: it is on disk, under its name, when put returns.
func put(dir, name string, b []byte) error {
	root, err := jsonfile.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.Create(name, b, 0o600)
	if errors.Is(err, jsonfile.ErrExist) {
		var late *jsonfile.Late
		late, err = root.Replace(name, b, jsonfile.Any)
		_ = late.Close()
	}
	return err
}
