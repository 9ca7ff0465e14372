package ralph

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The states of a recorded answer.
const (
	stateTaken   = "taken"   // about to be carried out; after a crash it is unknown whether it was
	stateWritten = "written" // carried out
	stateStarted = "started" // the resume command is running or has run
	stateFailed  = "failed"  // the resume command could not be started, or failed at once
)

// note is the record of a user's answer.
type note struct {
	Key    string `json:"incident"`
	At     string `json:"decided_at"`
	By     string `json:"decided_by"`
	Option string `json:"decision"`
	Label  string `json:"label"`
	Why    string `json:"rationale"`
	Sum    string `json:"sum"`    // of the task's text that the user saw
	Marker string `json:"marker"` // the task's marker before the answer was carried out
	State  string `json:"state"`
	Since  string `json:"since"` // when the answer entered the state
	Error  string `json:"error,omitzero"`
}

// answers holds the newest answers about one task.
type answers struct {
	Task    string `json:"task"`
	Answers []note `json:"answers"` // oldest first
}

const (
	answersDir = own + "/answers"
	maxNotes   = 10   // per task
	maxWords   = 4000 // characters of each text of an answer
)

func notesFile(id string) string { return answersDir + "/" + id + ".json" }

func noteOf(c protocol.Change) note {
	a := c.Answer
	return note{Key: folder.Line(a.Key, 200), At: a.At.UTC().Format(time.RFC3339Nano), By: folder.Line(a.By, 200), Option: folder.Line(a.Option, 200),
		Label: short(a.Label), Why: short(a.Why), Sum: c.Ref.Sum}
}

// short makes a user's text fit for a record. It keeps every character that JSON can escape.
func short(s string) string { return folder.Short(strings.ToValidUTF8(s, "�"), maxWords) }

func (n note) in(state string, now time.Time) note {
	n.State, n.Since = state, now.UTC().Format(time.RFC3339Nano)
	return n
}

// is reports whether both notes are the same answer. The key alone is not enough: a reopened incident keeps its key.
func (n *note) is(other *note) bool { return n.Key == other.Key && n.At == other.At }

// noted returns the record of an answer; its State is "" if there is none.
func (p *Project) noted(id string, n note) (note, error) {
	o, _, err := p.Root.Load(notesFile(id), maxFile)
	if folder.Missing(err) {
		return note{}, nil
	}
	if err != nil {
		return note{}, fmt.Errorf("read the answers on record: %w", err)
	}
	for _, old := range decodeNotes(o).Answers {
		if old.is(&n) {
			return old, nil
		}
	}
	return note{}, nil
}

func decodeNotes(o jsonfile.Object) answers {
	ns := answers{}
	ns.Task, _ = o.String("task")
	list, _ := o.Array("answers")
	for _, v := range list {
		o, _ := v.Object()
		n := note{}
		for key, to := range map[string]*string{"incident": &n.Key, "decided_at": &n.At, "decided_by": &n.By, "decision": &n.Option, "label": &n.Label,
			"rationale": &n.Why, "sum": &n.Sum, "marker": &n.Marker, "state": &n.State, "since": &n.Since, "error": &n.Error} {
			*to, _ = o.String(key)
		}
		ns.Answers = append(ns.Answers, n)
	}
	return ns
}

// note records an answer and replaces an earlier record of the same answer.
func (p *Project) note(id string, n note) error {
	file := notesFile(id)
	if err := p.Root.Mkdir(answersDir, 0o755); err != nil {
		return fmt.Errorf("record the answer: %w", err)
	}
	o, blob, err := p.Root.Load(file, maxFile)
	if err != nil && !folder.Missing(err) {
		return fmt.Errorf("record the answer: %w", err)
	}
	there := err == nil
	ns := decodeNotes(o)
	ns.Task, ns.Answers = id, enter(ns.Answers, n)
	doc, err := jsonfile.Encode(ns)
	if err != nil {
		return err
	}
	if !there {
		err = p.Root.Create(file, doc, 0o644)
	} else if late, e := p.Root.Replace(file, doc, blob.Sum); true {
		err = errors.Join(e, late.Close())
	}
	if err != nil {
		return fmt.Errorf("record the answer: %w", err)
	}
	return nil
}

// enter adds a note to those of its task, or replaces it there, and keeps the newest maxNotes.
func enter(list []note, n note) []note {
	for i := range list {
		if list[i].is(&n) {
			if n.Marker == "" {
				n.Marker = list[i].Marker
			}
			list[i] = n
			return list
		}
	}
	list = append(list, n)
	return list[max(0, len(list)-maxNotes):]
}
