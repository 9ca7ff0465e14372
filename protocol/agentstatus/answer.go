package agentstatus

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// decisionExt is the extension of the file that gives agents the operator's decision. The file is not a task file: no
// scan reads it, and no client's search matches it (clients search for *.request.json and *.result.json).
const decisionExt = ".decision.json"

func decisionFile(id string) string { return taskFile(id, decisionExt) }

// decision is the operator's answer about a task. The newest decision lies beside the task's other files. Each
// replaced decision is kept as <id>.<n>.decision.json in steward/attempts.
type decision struct {
	TaskID    string    `json:"task_id"`
	Decision  string    `json:"decision"`
	Label     string    `json:"label"`
	Rationale string    `json:"rationale"`
	By        string    `json:"decided_by"`
	At        time.Time `json:"decided_at"`
	Incident  string    `json:"incident"`
	Source    string    `json:"source_agent"`
}

// The limits of a decision's texts, in characters.
const (
	maxName = 200
	maxText = 4000
)

// decisionOf builds the decision document of an answer. The operator's text may contain anything; the document is
// always valid and short.
func decisionOf(id string, a *protocol.Answer) (decision, error) {
	d := decision{TaskID: id, Decision: folder.Line(a.Option, maxName), Label: cleanText(a.Label), Rationale: cleanText(a.Why),
		By: folder.Line(a.By, maxName), At: a.At.UTC().Truncate(time.Second), Incident: folder.Line(a.Key, maxName), Source: ourName}
	if d.Incident == "" || d.At.IsZero() || cmp.Or(d.Decision, d.Label) == "" {
		return d, fmt.Errorf("answer about task %s: it lacks its incident, its time or its words; answer the incident again", id)
	}
	return d, nil
}

// cleanText keeps a text's line breaks and tabs, replaces other control characters with spaces, and shortens the text to
// maxText.
func cleanText(s string) string {
	return folder.Short(strings.Map(func(r rune) rune { // which also makes it valid UTF-8
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n")), maxText)
}

func decodeDecision(o jsonfile.Object) (d decision) {
	folder.Fill(o, &d)
	return d
}

// is reports whether both are the same answer. It compares the time as well: a recurring incident may be answered
// again under its old key.
func (d decision) is(other decision) bool {
	return d.Source == ourName && d.Incident == other.Incident && d.At.Equal(other.At)
}

// writeDecision writes the operator's decision beside its task (VerbAnswer). It archives an older decision first, so that a
// crash loses neither.
func writeDecision(p *Project, c protocol.Change) error {
	switch {
	case c.Subject.Kind != protocol.KindTask:
		return fmt.Errorf("answer about a %s: %w", c.Subject.Kind, protocol.ErrUnsupported)
	case c.Answer == nil:
		return fmt.Errorf("answer about task %s: there is no answer in the change", c.Subject.ID)
	}
	d, err := decisionOf(c.Subject.ID, c.Answer)
	if err != nil {
		return err
	}
	file := decisionFile(d.TaskID)
	o, blob, err := p.Root.Load(file, maxFile)
	if err != nil && !folder.Missing(err) {
		return err
	}
	stands := err == nil
	old := decodeDecision(o)
	if stands && old.is(d) {
		if p.log.read(); !p.log.names(d.TaskID, eventDecided) { // a crash cut the line off
			reportDecision(p, c)
		}
		return nil
	}
	if p.attempts.decided(d) {
		return nil
	}
	mode, err := judgedFile(p, c)
	if err != nil {
		return err
	}
	doc, err := jsonfile.Encode(d)
	if err != nil {
		return err
	}
	switch {
	case !stands:
		err = p.Root.Create(file, doc, mode)
	case old.Source != ourName:
		return folder.Moved("another program has written a decision")
	case old.At.After(d.At) && !old.At.After(p.Now): // a time in the future does not count
		_, err = p.attempts.create(d.TaskID, "decision", doc, mode)
	default:
		old.TaskID = d.TaskID
		if !p.attempts.decided(old) {
			_, err = p.attempts.create(d.TaskID, "decision", blob.Data, blob.Stamp.Mode.Perm())
		}
		if err == nil {
			err = p.Replace(file, doc, blob.Sum)
		}
	}
	if err == nil {
		reportDecision(p, c)
	}
	return err
}

// judgedFile checks that the task is still as the operator saw it, and returns the file mode for the decision. A settled
// task stays settled.
func judgedFile(p *Project, c protocol.Change) (fs.FileMode, error) {
	settled := p.tasks.settled[c.Subject.ID] != nil
	e := p.tasks.fresh(c.Subject.ID)
	if _, over := e.over(); settled && over {
		defer p.tasks.settle(e)
	}
	if !e.exists() {
		return 0, folder.Moved("its files are gone")
	}
	seen := e.asked().ref()
	o, result := e.ended()
	switch {
	case o != nil && c.Ref.Sum == result.Sum, o != nil && seen.Path == "" && c.Ref.Sum == "": // the operator saw no request
		seen = result
	case seen.Path == "" || seen.Sum != c.Ref.Sum:
		return 0, folder.Moved("the task is not as it was when the human answered")
	}
	st, err := p.Root.Stat(seen.Path)
	return st.Mode.Perm(), err
}

// decided reports whether the decision is among the archived decisions.
func (a *attempts) decided(d decision) bool {
	return a.onRecord(d.TaskID, "decision", func(b jsonfile.Blob) bool {
		o, err := jsonfile.Parse(b.Data)
		return err == nil && decodeDecision(o).is(d)
	})
}

func reportDecision(p *Project, c protocol.Change) {
	c.Why = folder.Line(c.Why, maxText)
	p.log.report(eventDecided, c)
}
