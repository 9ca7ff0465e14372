package envelope

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// workDir holds what the document has no message for: one file for each open task that an agent took through steward, and
// the orchestrator's approvals. attemptsDir counts the lost attempts.
const (
	workDir      = own + "/work"
	approvedFile = workDir + "/approved.jsonl"
	attemptsDir  = own + "/attempts"
)

// workVersion is the version of these files.
const workVersion = 1

// workRecord says who works on a task, and how far the work is.
type workRecord struct {
	Version int    `json:"version"`
	Task    string `json:"task_id"`
	// Agent and Worker have the task; "" if it is free. Round is the message that they answer: the assignment, or the
	// rejection. A later round ends the claim.
	Agent  string            `json:"agent,omitzero"`
	Worker protocol.Identity `json:"worker,omitzero"`
	Round  jsonfile.Sum      `json:"round,omitzero"`
	Since  time.Time         `json:"since"` // when it was taken or became free
	// Waiting: its agent asked a question. Once that is settled, the process goes on if it lives; else the task is free.
	Waiting bool `json:"waiting,omitzero"`
	// Withdrawn are the acknowledgements and failures of runs that are over: they do not count any more.
	Withdrawn []jsonfile.Sum `json:"withdrawn,omitzero"`
	Lost      int            `json:"attempts_lost,omitzero"`
	Percent   float64        `json:"percent,omitzero"`
	Step      string         `json:"step,omitzero"`
	Stepped   time.Time      `json:"stepped,omitzero"` // time of Percent and Step
}

func workFile(id string) string { return workDir + "/" + id + messageExt }

// works reads and writes the records of work, and enters them on the board.
type works struct {
	*folder.Folder
	board    *board
	listing  folder.Listing
	approved folder.Tail
	attempts *folder.Attempts
}

func newWorks(f *folder.Folder, b *board) *works {
	return &works{Folder: f, board: b, approved: folder.Tail{File: approvedFile, Max: maxFile}, attempts: folder.NewAttempts(attemptsDir)}
}

// read brings the records up to date. It costs three stats if nothing is new. A record that cannot be used is a fault.
func (w *works) read() {
	w.attempts.Refresh(w.Root, &w.Patience, w.Now)
	_ = w.approved.Read(w.Folder, func() {}, func(line []byte, _ int64) {
		var a endorsement
		if line != nil && jsonfile.Decode(line, &a) == nil {
			w.board.approve(a)
		}
	})
	if !w.listing.Read(w.Folder, workDir) {
		return
	}
	found := map[string]*workRecord{}
	for _, name := range w.listing.Names {
		id, ok := strings.CutSuffix(name, messageExt)
		if !ok || !plain(id) {
			continue
		}
		if k, err := w.load(id); err == nil {
			found[id] = k
			w.Patience.Clear(workFile(id))
		} else if !folder.Missing(err) {
			w.Patience.Unreadable(workFile(id), err)
			found[id] = w.board.works[id] // the last good one
			w.listing = folder.Listing{}
		}
	}
	w.board.setWorks(found)
}

func (w *works) load(id string) (*workRecord, error) {
	o, blob, err := w.Root.Load(workFile(id), maxFile)
	if err == nil {
		err = o.Newer(workVersion)
	}
	k := &workRecord{}
	if err == nil {
		err = jsonfile.Decode(blob.Data, k)
	}
	if err == nil && k.Task != id {
		err = errors.New("the file is about another task")
	}
	return k, err
}

func (w *works) put(k workRecord) error {
	k.Version = workVersion
	err := w.Root.Mkdir(workDir, 0o755)
	if err == nil {
		err = folder.Files{Folder: w.Folder}.Put(workFile(k.Task), k)
	}
	w.listing = folder.Listing{}
	return err
}

func (w *works) remove(id string) error {
	w.listing = folder.Listing{}
	return folder.IgnoreMissing(w.Root.Remove(workFile(id)))
}

// withdraw returns the record of a task whose acknowledgements do not count any more. lost: this attempt is lost.
// See docs/decisions.md, "A lost run's acknowledgement is withdrawn (004)".
func (w *works) withdraw(t *task, lost int) workRecord {
	k := workRecord{Task: t.id, Since: w.Now, Lost: lost}
	if t.work != nil {
		k.Lost = max(lost, t.work.Lost)
	}
	for _, m := range t.messages {
		if m.kind == acknowledges || m.kind == escalates && m.blocker.failure != nil {
			k.Withdrawn = append(k.Withdrawn, m.sum)
		}
	}
	return k
}

// endorsement is a line of the approvals. The document has no message that approves a completion.
type endorsement struct {
	Task       string       `json:"task_id"`
	Completion jsonfile.Sum `json:"completion"`
	By         string       `json:"by"`
	At         time.Time    `json:"at"`
	Why        string       `json:"why,omitzero"`
}

func (w *works) approve(t *task, by, why string) error {
	line, err := jsonfile.EncodeLine(endorsement{t.id, t.done.sum, by, w.Now, why})
	if err == nil {
		err = w.Root.Mkdir(workDir, 0o755)
	}
	if err == nil {
		err = w.Root.Append(approvedFile, line)
	}
	return err
}

// claim returns the record of who has the task; nil if it is free, or taken without steward.
func (t *task) claim() *workRecord {
	if k := t.work; k != nil && k.Agent != "" && k.Round == t.opener().sum && !t.over() && t.stage != stageReview {
		return k
	}
	return nil
}

// freed is when the task was last made free again; zero if it never was.
func (k *workRecord) freed() (at time.Time) {
	if k != nil && k.Agent == "" && len(k.Withdrawn) > 0 {
		at = k.Since
	}
	return at
}

// asks reports whether an agent that is not at work asked a question that must be answered first.
func (t *task) asks() bool {
	return t.clarification != nil && t.clarification.answer.notUnderstood && t.work.withdrew(t.clarification)
}

// failed returns the blocker by which a run failed; nil if none did.
func (t *task) failed() *message {
	for _, m := range t.blockers {
		if m.blocker.failure != nil && !t.over() {
			return m
		}
	}
	return nil
}

// opener is the message that its agent must answer: the newest assignment, or a later rejection.
func (t *task) opener() *message {
	if t.refusal != nil {
		return t.refusal
	}
	return t.assigned
}

// withdrew reports whether an acknowledgement does not count any more.
func (k *workRecord) withdrew(m *message) bool {
	return k != nil && slices.Contains(k.Withdrawn, m.sum)
}

// requeue frees a task whose agent is lost. The attempt is counted first, so that no crash grants an extra one.
func (p *Project) requeue(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	switch {
	case t == nil || t.assigned == nil || t.over():
		return folder.Moved("the task is gone or has ended")
	case t.assigned.ref() != c.Ref:
		return folder.Moved("the assignment is not the one that was judged")
	case t.work != nil && t.work.Lost >= c.Attempt: // done already; a crash may have cut it short
		return p.works.attempts.Commit(p.Root, c)
	case c.Claim != "" && (t.claim() == nil || t.claim().mark() != c.Claim):
		return folder.Moved("another agent has taken it, or it was given back")
	}
	if err := p.works.attempts.Enter(p.Root, c, p.Now); err != nil {
		return err
	}
	if err := p.works.put(p.works.withdraw(t, c.Attempt)); err != nil {
		return err
	}
	return p.works.attempts.Commit(p.Root, c)
}

// mark identifies a claim.
func (k *workRecord) mark() string {
	return fmt.Sprintf("%s %s %d %d %s", jsonfile.FormatTime(k.Since), k.Agent, k.Worker.PID, k.Worker.Start, k.Round)
}
