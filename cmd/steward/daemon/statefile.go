package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
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
		var zero T
		return zero, &badState{name, err}
	}
	return v, nil
}

// takeUp is readState for the daemon. It sets unusable content aside and returns the zero value. A file that cannot be
// read at the moment may be intact: the start fails, the file stays, and the service manager tries again.
func takeUp[T any](h *Daemon, name string) (T, error) {
	v, err := readState[T](h.state, name)
	if bad := (*badState)(nil); errors.As(err, &bad) {
		return v, h.setAside(bad)
	}
	if err != nil {
		return v, fmt.Errorf("%w; nothing was changed: start steward again when %s can be read", err, name)
	}
	return v, nil
}

func (h *Daemon) store(name string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return h.put(name, data)
}

func (h *Daemon) put(name string, data []byte) error {
	if len(data) > maxState {
		return fmt.Errorf("write %s: it has %d bytes, more than the %d that are read back", name, len(data), maxState)
	}
	late, err := h.state.Replace(name, data, jsonfile.Any)
	_ = late.Close()
	return err
}

// mostAside is how many files of one name are kept aside. Once all names are taken, the newest file replaces the last:
// the first ones show how the trouble began.
const mostAside = 10

// setAside renames a file that cannot be used, and tells the operator.
func (h *Daemon) setAside(bad *badState) error {
	aside, err := asideName(h.state, bad.name)
	if err == nil {
		err = h.state.Rename(bad.name, aside)
	}
	if err != nil {
		return fmt.Errorf("set %s aside (%w): %w", bad.name, bad.err, err)
	}
	h.log.Error("state file set aside", "file", bad.name, "kept", aside, "error", bad.err)
	return h.tell(asideAlert(bad, aside))
}

// asideName returns a free name for a file that is set aside. If all names are taken, it removes the last file.
func asideName(root *jsonfile.Root, name string) (string, error) {
	for n := 1; ; n++ {
		aside := name + ".bad"
		if n > 1 {
			aside = fmt.Sprintf("%s.bad%d", name, n)
		}
		switch _, err := root.Stat(aside); {
		case errors.Is(err, fs.ErrNotExist):
			return aside, nil
		case n == mostAside:
			return aside, root.Remove(aside)
		case err != nil && !errors.Is(err, jsonfile.ErrHostile):
			return "", err
		}
	}
}

// clearSnapshot sets aside a snapshot that a newer steward has written, before this one writes its own. A damaged
// snapshot is simply overwritten: it is not flushed to the disk, so a power failure may damage it.
func (h *Daemon) clearSnapshot() error {
	_, err := readState[json.RawMessage](h.state, SnapshotFile)
	if bad := (*badState)(nil); errors.As(err, &bad) {
		if errors.Is(err, errNewer) {
			return h.setAside(bad)
		}
		return nil
	}
	return err
}

// forgotten says what steward does without a file that it had to set aside.
func forgotten(name string) string {
	switch name {
	case MemoryFile:
		return "Silences are counted anew, and work that ended before this start is history. Pauses, holds and incidents lie in files of " +
			"their own and stand; the attempts of tasks are read from the projects' files."
	case learntFile:
		return "What tasks cost is learnt anew."
	}
	return "Everything else is as it was."
}

// incidentAsideAlert reports that the file of an incident was set aside: its question may be asked again.
func incidentAsideAlert(f protocol.Fault) rules.Alert {
	name := filepath.Base(f.Path)
	return rules.Alert{Kind: "state_set_aside", Severity: protocol.Medium, Foreign: true, Lasting: true, Code: name,
		Subject:    protocol.Subject{Kind: protocol.KindMachine, ID: "incidents"},
		Summary:    "the file of an incident could not be used: " + name,
		Detail:     fmt.Sprintf("%s; %s. An answer or acknowledgement in it is not in force: the incident is raised again if its cause lasts.", f.Problem, f.Hint),
		Occurrence: f.Path + " " + f.Since.UTC().Format(time.RFC3339Nano),
		Options:    []rules.Option{{ID: decide.OptionDone, Label: "Taken care of"}}}
}

// asideAlert reports that a file of the state folder was set aside.
func asideAlert(bad *badState, aside string) rules.Alert {
	summary := "steward's " + bad.name + " was damaged, and was set aside"
	if errors.Is(bad.err, errNewer) {
		summary = "steward's " + bad.name + " was written by a newer steward, and was set aside"
	}
	return rules.Alert{Kind: "state_set_aside", Severity: protocol.Medium, Foreign: true, Lasting: true, Code: bad.name,
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: bad.name}, Summary: summary,
		Detail:     fmt.Sprintf("%v. The file is kept as %s in the state folder. %s", bad.err, aside, forgotten(bad.name)),
		Occurrence: aside + " " + time.Now().UTC().Format(time.RFC3339Nano),
		Options:    []rules.Option{{ID: decide.OptionDone, Label: "Taken care of"}}}
}
