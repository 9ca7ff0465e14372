package agentstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The States of a Detail.
const (
	StatePending = "pending" // its request is visible
	StateHeld    = "held"    // steward holds it: for room, for a retry, or until another task is completed
	StateRunning = "running" // claimed, or it has reported progress
	StateEnded   = "ended"   // it has a result
)

// Detail is everything that the files say about one task.
type Detail struct {
	ID, State  string
	Request    *Request // nil if only a result exists
	Result     *Result
	RequestRaw json.RawMessage
	ResultRaw  json.RawMessage
	Progress   *TaskProgress
	Attempts   []protocol.Attempt // the finished runs whose results were taken away, oldest first
	Due        time.Time          // when the next run is due; zero if none is scheduled
	Hold       *protocol.Hold
	HoldWhy    string
	Claim      *Claim
	Buried     bool // a dead letter is on record
	Cancelled  bool
	CancelWhy  string // why steward cancelled its retry, if steward did
	Final      bool   // ended, and no further run is scheduled
	Abandoned  bool   // claimed, and all processes of the claim are proved dead
	Output     string // path of the newest run's kept output; "" if none exists
}

// AmbiguousError lists the tasks that an abbreviated id matches.
type AmbiguousError struct {
	Prefix string
	IDs    []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s can mean %s", e.Prefix, strings.Join(e.IDs, ", "))
}

// minPrefix is the minimum length of an abbreviated id.
const minPrefix = 4

// Task returns everything about one task, named by its id or by a unique prefix of at least four characters. Errors:
// ErrNoTask, *AmbiguousError, ErrNotInitialized.
func (c *Client) Task(ctx context.Context, id string, now time.Time) (Detail, error) {
	if err := c.open(now); err != nil {
		return Detail{}, err
	}
	if !plainID(id) {
		return Detail{}, ErrNoTask
	}
	p := c.p
	e := p.tasks.fresh(id)
	if !e.exists() {
		full, err := p.complete(id)
		if err != nil {
			return Detail{}, err
		}
		e = p.tasks.fresh(full)
	}
	for _, before := range e.asked().Value.Coordination.After {
		if plainID(before) {
			p.tasks.fresh(before)
		}
	}
	d := p.detail(e)
	d.Abandoned = d.Claim != nil && c.abandoned(*d.Claim)
	return d, nil
}

// HeldBack lists the agent's held tasks, sorted by id. Errors: ErrNotInitialized, and errors of reading the folder.
func (c *Client) HeldBack(ctx context.Context, agent string, now time.Time) ([]Detail, error) {
	if err := c.open(now); err != nil {
		return nil, err
	}
	p := c.p
	var ids []string
	err := p.eachTaskFile(tasksDir, func(id string, kind kinds) {
		if kind == hasHeld {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	var list []Detail
	for _, id := range ids {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := p.tasks.fresh(id)
		if target := e.asked().Value.Target; target == "" || (directory{agent: true}).canonical(target) != agent {
			continue
		}
		if d := p.detail(e); d.State == StateHeld {
			list = append(list, d)
		}
	}
	return list, err
}

// complete returns the id that begins with the prefix.
func (p *Project) complete(prefix string) (string, error) {
	if len(prefix) < minPrefix {
		return "", ErrNoTask
	}
	var found []string
	for _, dir := range []string{tasksDir, archiveDir} {
		_ = p.eachTaskFile(dir, func(id string, _ kinds) {
			if strings.HasPrefix(id, prefix) && !slices.Contains(found, id) {
				found = append(found, id)
			}
		})
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return "", ErrNoTask
	case 1:
		return found[0], nil
	}
	return "", &AmbiguousError{prefix, found[:min(len(found), 10)]}
}

// readWhole reads a document with all its fields; nil if it cannot be read.
func readWhole[T any](f *statusFiles, file string) (*T, []byte) {
	o, blob, ok := f.object(file)
	if file == "" || !ok {
		return nil, nil
	}
	v := whole[T](o)
	return &v, blob.Data
}

func (p *Project) detail(e *entry) Detail {
	o, ref := e.ended()
	d := Detail{ID: e.id, State: StatePending, Buried: e.record.buried, Cancelled: e.record.cancelled, Hold: e.hold(), Attempts: e.record.committed(),
		Output: p.outputOf(e)}
	if e.record.reason == protocol.ReasonSuperseded {
		d.CancelWhy = "steward cancelled its retry: " + e.record.why
	}
	d.Request, d.RequestRaw = readWhole[Request](p.statusFiles, e.asked().path)
	d.Result, d.ResultRaw = readWhole[Result](p.statusFiles, ref.Path)
	if e.progress.Good {
		d.Progress, _ = readWhole[TaskProgress](p.statusFiles, e.progress.path)
	}
	if e.claim.Good && o == nil {
		k := e.claim.Value
		k.Task = e.id
		d.Claim = &k
	}
	if o, _, ok := p.object(e.notice.path); ok {
		d.HoldWhy = folder.Line(text(o, "why"), 300)
	}
	if k := e.record.last(); k != nil && (!k.Committed || d.Hold != nil && d.Hold.Reason == protocol.HoldRetry) {
		d.Due = k.Due
	}
	switch {
	case o != nil:
		d.State, d.Final = StateEnded, e.record.pending == ""
	case d.Hold != nil && !e.request.There:
		d.State = StateHeld
	case d.Claim != nil || e.begun():
		d.State = StateRunning
	default:
		if why := p.tasks.block(e.id, &e.asked().Value); why != "" {
			d.State, d.Hold, d.HoldWhy = StateHeld, &protocol.Hold{Reason: protocol.HoldBlocked}, why
		}
	}
	return d
}

// outputDir holds the output of the tasks' commands.
const outputDir = "steward/output"

func outputFile(id string, attempt int) string {
	return fmt.Sprintf("%s/%s.%d.log", outputDir, id, attempt)
}

// OutputFile returns the absolute path of the file for a run's output. It creates the file, so that the file belongs
// to the folder's owner even if root runs the worker.
func (c *Client) OutputFile(id string, attempt int, now time.Time) (string, error) {
	if err := c.open(now); err != nil {
		return "", err
	}
	if !plainID(id) {
		return "", ErrNoTask
	}
	if _, err := c.p.MakeOwn(); err != nil {
		return "", err
	}
	if err := c.p.Root.Mkdir(outputDir, 0o755); err != nil {
		return "", err
	}
	err := c.p.Root.Create(outputFile(id, attempt), nil, 0o600, jsonfile.Volatile)
	if err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return "", err
	}
	return folder.Absolute(c.p.Folder, outputFile(id, attempt)), nil
}

// SweepOutput removes the output files that were last written before the given time.
func (c *Client) SweepOutput(before, now time.Time) error {
	if err := c.open(now); err != nil {
		return err
	}
	names, _, err := c.p.Root.List(outputDir)
	if err != nil {
		return folder.IgnoreMissing(err)
	}
	for _, name := range names {
		file := outputDir + "/" + name
		if st, err := c.p.Root.Stat(file); err == nil && strings.HasSuffix(name, ".log") && st.ModTime().Before(before) {
			if err := folder.IgnoreMissing(c.p.Root.Remove(file, jsonfile.Volatile)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Project) outputOf(e *entry) string {
	for n := e.record.next(); n > 0; n-- {
		if file := outputFile(e.id, n); p.Has(file) {
			return folder.Absolute(p.Folder, file)
		}
	}
	return ""
}

// Work is a task that the agent may take. Problems lists the schema violations of its request.
type Work struct {
	Request
	Raw      json.RawMessage
	Attempt  int
	Sum      string // of the request
	Appeared time.Time
	Title    string
	Problems []string
}

// Open lists the tasks that this agent may take now, by priority, then by age. It leaves out requests that are held,
// have a result, are claimed, or come after tasks that are not completed.
func (c *Client) Open(ctx context.Context, agent string, now time.Time) ([]Work, error) {
	if err := c.open(now); err != nil {
		return nil, err
	}
	p := c.p
	requests := map[string]kinds{}
	err := p.eachTaskFile(tasksDir, func(id string, kind kinds) { requests[id] |= kind })
	if err != nil {
		return nil, fmt.Errorf("look for tasks: %w", err)
	}
	maps.DeleteFunc(requests, func(_ string, has kinds) bool { return has&hasRequest == 0 || has&(hasResult|hasHeld) != 0 })
	for id := range p.tasks.open { // forget the tasks that are no longer open: a worker runs for weeks
		if _, open := requests[id]; !open {
			delete(p.tasks.open, id)
		}
	}
	var list []Work
	for id := range requests {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if w := p.tasks.offer(p.tasks.refresh(id), agent); w != nil {
			list = append(list, *w)
		}
	}
	if p.Patience.Calm() { // else some file there may not have been read
		p.Through(p.Folder, tasksDir, archiveDir, attemptsDir, claimsDir)
	}
	slices.SortFunc(list, func(a, b Work) int {
		pa, _ := protocol.ParsePriority(a.Priority)
		pb, _ := protocol.ParsePriority(b.Priority)
		return cmp.Or(cmp.Compare(pb, pa), a.Appeared.Compare(b.Appeared), strings.Compare(a.TaskID, b.TaskID))
	})
	return list, nil
}

// offer returns the task as work for the agent, or nil if the agent may not take it now.
func (t *taskTable) offer(e *entry, agent string) *Work {
	r := &e.request.Value
	for _, before := range r.Coordination.After { // it may have ended since this Client last read it
		if plainID(before) {
			t.refresh(before)
		}
	}
	if !e.takeable() || t.Patience.Has(e.request.path) || (directory{agent: true}).canonical(r.Target) != agent || t.block(e.id, r) != "" {
		return nil
	}
	o, blob, read := t.object(e.request.path)
	if !read || blob.Sum != e.request.Sum {
		return nil
	}
	w := &Work{Request: whole[Request](o), Raw: blob.Data, Attempt: e.record.next(), Sum: string(blob.Sum), Appeared: appeared(e.request.Stamp),
		Title: r.title, Problems: texts(r.issues)}
	w.TaskID = e.id
	return w
}
