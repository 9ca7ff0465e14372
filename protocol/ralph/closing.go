package ralph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// closing is what a report means in the kanban: the markers that it may follow, and the marker that it sets (protocol 002,
// Status Updates).
type closing struct {
	from string
	to   byte
}

var closings = map[protocol.ReportKind]closing{
	protocol.ReportDone:     {string([]byte{todo, working, failed}), complete},
	protocol.ReportApproved: {string([]byte{todo, working, failed}), complete},
	protocol.ReportFailed:   {string([]byte{todo, working}), failed},
	protocol.ReportRejected: {string([]byte{todo, working, failed}), dropped},
	protocol.ReportCancel:   {string([]byte{todo, working, failed, approval}), dropped},
	protocol.ReportReturned: {string([]byte{working, failed}), todo},
}

// Report marks a task that no worker runs: done and approved [x], failed [*], rejected and cancelled [N], returned [ ]. The
// summary and the issues are recorded in steward's own folder, because the kanban has no field for them. Errors:
// ErrUnsupported, *protocol.InvalidError, ErrNoTask, ErrTaken while a worker of the task lives or the program is about to
// resume it, ErrEnded, ErrConflict, and those of the lock as for Submit.
func (c *Client) Report(ctx context.Context, id string, r protocol.Report, now time.Time) (protocol.Receipt, error) {
	to, ok := closings[r.Kind]
	if !ok {
		return protocol.Receipt{}, fmt.Errorf("%s: %w: Chief Wiggum's workers report on their tasks themselves, in checkpoints, summaries and results", r.Kind, protocol.ErrUnsupported)
	}
	if problems := unplaced(r); len(problems) > 0 {
		return protocol.Receipt{}, &protocol.InvalidError{Problems: problems}
	}
	receipt := protocol.Receipt{ID: id, State: stateOf[to.to], Path: c.kanban()}
	err := c.guarded(ctx, now, func() error { return c.closeTask(ctx, id, r, to, &receipt) })
	if err != nil {
		return protocol.Receipt{}, fmt.Errorf("%s: %w", r.Kind, err)
	}
	return receipt, nil
}

// unplaced lists the parts of a report for which only the worker's own files have a place.
func unplaced(r protocol.Report) (problems []string) {
	for _, part := range []struct {
		given bool
		name  string
	}{
		{r.To != "", "an addressee"}, {r.Percent != 0, "a percentage"}, {len(r.Created)+len(r.Modified) > 0, "the files"}, {len(r.Next) > 0, "next steps"},
		{len(r.Options) > 0, "options"}, {len(r.Fields) > 0, "further fields"}, {len(r.Document) > 0, "a document"},
	} {
		if part.given {
			problems = append(problems, "the kanban has no place for "+part.name+"; only a summary is kept")
		}
	}
	return problems
}

func (c *Client) closeTask(ctx context.Context, id string, r protocol.Report, to closing, receipt *protocol.Receipt) error {
	w := c.p.write
	e, err := c.find(id)
	switch {
	case err != nil:
		return err
	case e.marker == to.to:
		receipt.Note = fmt.Sprintf("it was already marked [%c]", to.to)
		return nil
	}
	if err := c.free(e, r.Kind); err != nil {
		return err
	}
	switch {
	case strings.IndexByte(to.from, e.marker) >= 0:
	case e.marker == approval:
		return fmt.Errorf("%s is [P]: it is complete when its pull request is merged, with `wiggum worker merge %s`; `wiggum worker fix %s` works on the review's comments", id, id, id)
	case e.marker == dropped:
		return fmt.Errorf("%s is not planned ([N]): %w; to have it done, write [ ] into its line of the kanban", id, protocol.ErrEnded)
	default:
		return fmt.Errorf("%s is [%c]: %w", id, e.marker, protocol.ErrEnded)
	}
	verb := protocol.VerbAnswer
	if r.Kind == protocol.ReportCancel {
		verb = protocol.VerbCancel
	}
	change := protocol.Change{Verb: verb, Subject: task(id), Judged: protocol.Judged{Ref: protocol.Ref{Sum: e.sum}}}
	return w.mark(ctx, change, to.from, to.to, func(kanban []byte) error { return c.keepWords(kanban, e, r) })
}

// free proves that no worker of the task lives and, unless the task is cancelled, that the program does not resume it.
func (c *Client) free(e *entry, kind protocol.ReportKind) error {
	w := c.p.write
	for _, run := range w.judgeRuns(e.id) {
		if run.session.presence == protocol.PresenceHere {
			return fmt.Errorf("%s is at work on %s (%s): %w; `wiggum worker stop %s` stops it", run.name, e.id, run.session.evidence, protocol.ErrTaken, e.id)
		}
	}
	if e.marker == working {
		switch d := w.view().judgeTask(&e.item, &e.track); {
		case d.presence == protocol.PresenceHere:
			return fmt.Errorf("%s: %w: %s", e.id, protocol.ErrTaken, d.evidence)
		case kind == protocol.ReportCancel || d.lost != "":
		default:
			return fmt.Errorf("%s: %w: %s", e.id, protocol.ErrTaken, cmp.Or(d.resume, d.evidence))
		}
	}
	if newest := w.workers.newest(e.id); newest != nil && kind != protocol.ReportCancel {
		return w.proveNotResumed(newest)
	}
	return nil
}

// keepWords records what the reporter said, before the mark is made.
func (c *Client) keepWords(kanban []byte, e *entry, r protocol.Report) error {
	w := c.p.write
	words := slices.Concat([]string{r.Summary}, r.Issues)
	if f := r.Failure; f != nil {
		words = append(words, strings.Trim(f.Code+": "+f.Message, ": "))
	}
	words = slices.Compact(slices.DeleteFunc(words, func(s string) bool { return strings.TrimSpace(s) == "" }))
	text := strings.Join(words, "; ")
	if r.Kind == protocol.ReportFailed {
		by := cmp.Or(folder.Line(r.Agent, 80), "a command")
		if err := w.failures.record(w.Folder, kanban, e.id, strings.TrimSuffix(by+" says: "+cmp.Or(text, "it failed"), ": ")); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	at := w.Now.UTC().Format(time.RFC3339Nano)
	return w.record(e.id, recordedAnswer{Key: "report", At: at, By: folder.Line(r.Agent, 200), Option: string(r.Kind), Why: folder.Short(text, maxWords), Sum: e.sum,
		Marker: string(rune(e.marker))}, stateWritten)
}
