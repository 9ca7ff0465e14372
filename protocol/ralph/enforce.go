package ralph

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// violation returns the reaction that a worker's proved violation demands; nil without a proof.
func (v kanbanView) violation(w *worker) *protocol.Violation {
	text := v.violationOf(w)
	if text == "" {
		return nil
	}
	found := &protocol.Violation{Worker: w.name, Text: text, Asked: v.opts.Violation != Mark && v.opts.Violation != End}
	if v.opts.Violation != Mark {
		found.Processes = slices.Clone(w.session.proved)
	}
	return found
}

// closeViolation does what the document asks for (protocol 002, On Violation): it ends the worker's session if processes are
// named, writes violation_status.txt and logs/violations.log, and marks the task as failed. The file comes first, because it
// lets the next run of steward finish what a crash cut short. Each part is done once.
func (w *writer) closeViolation(ctx context.Context, c protocol.Change) error {
	w.workers.list()
	run := w.workers.all[c.Agent]
	if run == nil || run.task != c.Subject.ID {
		return folder.Moved("the folder of %s is gone", folder.Line(c.Agent, 100))
	}
	_, it, err := w.item(run.task)
	switch {
	case err != nil:
		return err
	case it.marker == failed:
		return nil
	case it.marker != working || it.sum != c.Ref.Sum:
		return folder.Moved("the line of %s is not the one that was judged", run.task)
	case w.opts.Flock == nil:
		return ErrNoFlock
	}
	w.table = readTable(&w.sys, w.real)
	w.judgeRun(run)
	why := w.violationOf(run)
	if why == "" {
		return folder.Moved("there is no longer any proof that %s left its workspace", run.name)
	}
	if err := w.recordViolation(run, why); err != nil {
		return err
	}
	for _, id := range c.Processes {
		if slices.Contains(run.session.proved, id) && !w.sys.gone(id) {
			if err := w.sys.signal(proc.Identity(id), c.Status); err != nil {
				return err
			}
		}
	}
	recorded := false
	return w.editKanban(ctx, func(old []byte) ([]byte, error) {
		text, err := setMarker(old, run.task, c.Ref.Sum, string(rune(working)), failed)
		if text != nil && err == nil && !recorded {
			recorded, err = true, w.failures.record(w.Folder, text, run.task, run.name+" left its workspace: "+why)
		}
		return text, err
	})
}

// recordViolation writes the worker's violation_status.txt, and a line of logs/violations.log unless a crash came between this
// line and the end of an earlier attempt.
func (w *writer) recordViolation(run *worker, why string) error {
	if err := w.Needs(logsDir); err != nil {
		return err
	}
	err := w.Root.Create(path.Join(run.dir(), violationFile), []byte(violationWord+"\n"), 0o644)
	told := errors.Is(err, jsonfile.ErrExist) && strings.Contains(string(folder.Files{Folder: w.Folder}.End(violationsFile, maxSmall)), run.name)
	switch {
	case told:
		return nil
	case err != nil && !errors.Is(err, jsonfile.ErrExist):
		return err
	}
	return w.Root.Append(violationsFile, fmt.Appendf(nil, "%s %s %s: %s (found by steward)\n", w.Now.UTC().Format(time.RFC3339), violationWord, run.name, why))
}
