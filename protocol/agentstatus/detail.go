package agentstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
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
	Output     string // path of the newest run's kept output; "" if there is none
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
	p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir)
	e := p.fresh(id)
	if !e.exists() {
		full, err := p.complete(id)
		if err != nil {
			return Detail{}, err
		}
		e = p.fresh(full)
	}
	r, _ := e.asked()
	for _, before := range r.after {
		if plainID(before) {
			p.fresh(before)
		}
	}
	d := p.detail(e)
	d.Abandoned = d.Claim != nil && c.abandoned(*d.Claim)
	return d, nil
}

// complete returns the id that begins with the prefix.
func (p *Project) complete(prefix string) (string, error) {
	if len(prefix) < minPrefix {
		return "", ErrNoTask
	}
	var found []string
	for _, dir := range []string{tasksDir, archiveDir} {
		_, _ = p.Root.Each(dir, func(name []byte) {
			if id, _, ok := parseTaskFile(string(name)); ok && strings.HasPrefix(id, prefix) && plainID(id) && !slices.Contains(found, id) {
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

func (p *Project) detail(e *entry) Detail {
	d := Detail{ID: e.id, State: StatePending, Buried: e.record.buried, Cancelled: e.record.cancelled}
	if e.record.reason == protocol.ReasonSuperseded {
		d.CancelWhy = "steward cancelled its retry: " + e.record.why
	}
	if _, ref := e.asked(); ref.Path != "" {
		if o, blob, err := p.Root.Load(ref.Path, maxFile); err == nil {
			r := requestOf(o)
			d.Request, d.RequestRaw = &r, blob.Data
		}
	}
	o, ref := e.ended()
	if o != nil {
		if o, blob, err := p.Root.Load(ref.Path, maxFile); err == nil {
			r := resultOf(o)
			d.Result, d.ResultRaw = &r, blob.Data
		}
	}
	if e.progress.Good {
		if o, _, err := p.Root.Load(e.files.progress, maxFile); err == nil {
			t := progressOf(o)
			d.Progress = &t
		}
	}
	if e.claim.Good && o == nil {
		k := e.claim.Value
		k.Task = e.id
		d.Claim = &k
	}
	d.Hold = p.holdOf(e, o)
	if o, _, err := p.Root.Load(e.files.notice, maxFile); err == nil {
		d.HoldWhy = folder.Line(text(o, "why"), 300)
	}
	for _, k := range e.record.takings {
		if k.Committed {
			d.Attempts = append(d.Attempts, k)
		} else {
			d.Due = k.Due
		}
	}
	if k := e.record.last(); k != nil && d.Hold != nil && d.Hold.Reason == protocol.HoldRetry {
		d.Due = k.Due
	}
	switch {
	case o != nil:
		d.State, d.Final = StateEnded, e.record.pending == ""
	case d.Hold != nil && !e.request.There:
		d.State = StateHeld
	case d.Claim != nil || e.inHand():
		d.State = StateRunning
	}
	if r, _ := e.asked(); d.State == StatePending {
		if why := p.block(e.id, r); why != "" {
			d.State, d.Hold, d.HoldWhy = StateHeld, &protocol.Hold{Reason: protocol.HoldBlocked}, why
		}
	}
	d.Output = p.outputOf(e)
	return d
}

// outputDir holds the output of the tasks' commands.
const outputDir = "steward/output"

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
	return c.p.abs(outputFile(id, attempt)), nil
}

// SweepOutput removes the output files that were last written before the given time.
func (c *Client) SweepOutput(before, now time.Time) error {
	if err := c.open(now); err != nil {
		return err
	}
	files, _, err := c.p.Root.List(outputDir)
	if folder.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range files {
		file := outputDir + "/" + name
		if st, err := c.p.Root.Stat(file); err == nil && strings.HasSuffix(name, ".log") && st.ModTime().Before(before) {
			err = c.p.Root.Remove(file, jsonfile.Volatile)
			if err != nil && !folder.Missing(err) {
				return err
			}
		}
	}
	return nil
}

func outputFile(id string, attempt int) string {
	return fmt.Sprintf("%s/%s.%d.log", outputDir, id, attempt)
}

func (p *Project) abs(file string) string {
	return filepath.Join(p.dir, filepath.FromSlash(path.Join(Base, file)))
}

func (p *Project) outputOf(e *entry) string {
	for n := e.attempt(); n > 0; n-- {
		if file := outputFile(e.id, n); p.has(file) {
			return p.abs(file)
		}
	}
	return ""
}
