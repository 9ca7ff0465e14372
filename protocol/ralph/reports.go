package ralph

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// fixLoop is the number of runs of a step from which a FIX counts as a loop (protocol 002, Fix-retry loop).
const fixLoop = 3

// steps lists the newest result of each of a worker's steps (protocol 002, Result File Format), oldest first.
func (w *worker) steps() []protocol.Step {
	var list []protocol.Step
	for _, kind := range sortedKeys(w.results) {
		s := w.results[kind]
		if !s.doc.Good {
			continue
		}
		r := s.doc.Value
		t := protocol.Step{Name: folder.Line(kind, 80), Gate: r.gate, Status: r.status, ExitCode: r.exitCode, Seconds: r.seconds,
			Iterations: r.iterations, Runs: s.runs, PR: r.pr, Report: s.report, At: s.when()}
		if w.names[logsDir] {
			t.Logs = path.Join(Base, w.dir(), logsDir)
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b protocol.Step) int { return a.At.Compare(b.At) })
	return list
}

// seeAlso names the folders with more detail about a worker's results; "" if it has none. It does not name files: they
// come and go, and each time the finding's text would change.
func (w *worker) seeAlso() string {
	var dirs []string
	for _, dir := range []string{reportsDir, logsDir} {
		if w.names[dir] {
			dirs = append(dirs, path.Join(Base, w.dir(), dir)+"/")
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	return "; see " + strings.Join(dirs, " and ")
}

// failureReason says why a worker's task failed, as far as the worker's files show it; w may be nil.
func failureReason(w *worker) string {
	const plain = "the task failed and needs manual intervention"
	if w == nil {
		return plain
	}
	if v := w.violation; v.Good && v.Value != "" {
		return "it left its workspace: " + v.Value
	}
	var last *step
	kind := ""
	for _, name := range sortedKeys(w.results) {
		s := w.results[name]
		if s.doc.Good && (s.doc.Value.gate == "FAIL" || len(s.doc.Value.errors) > 0) && (last == nil || s.when().After(last.when())) {
			last, kind = s, name
		}
	}
	if last == nil {
		return plain
	}
	r := last.doc.Value
	text := strings.TrimSuffix(fmt.Sprintf("%s: %s %s", folder.Line(kind, 80), r.gate, strings.Join(r.errors, "; ")), " ")
	return folder.Line(text, 400) + w.seeAlso()
}

// stepFindings reports a step's newest gate (protocol 002, Gate Result Values). A value that the agent defined has no
// meaning for steward.
func stepFindings(w *worker, s *step, name string, since time.Time) (list []protocol.Finding) {
	if !s.doc.Good || !isRecent(s.when(), since) {
		return nil
	}
	r, field := s.doc.Value, folder.Line(name, 80)
	switch {
	case r.gate == "FAIL":
		text := strings.TrimSuffix("the gate says FAIL: "+strings.Join(r.errors, "; "), ": ") + w.seeAlso()
		return []protocol.Finding{w.finding("gate", field, protocol.High, text)}
	case r.gate == "FIX" && s.runs >= fixLoop:
		list = append(list, w.finding("fix_loop", field, protocol.Medium, fmt.Sprintf("the gate says FIX after %d runs%s", s.runs, w.seeAlso())))
	case r.gate == "FIX":
		list = append(list, w.finding("gate", field, protocol.Low, "the gate says FIX"))
	case r.invalidGate != "":
		list = append(list, w.finding("schema", field, protocol.Low, fmt.Sprintf("gate_result is %s, which is no word of three to ten capitals", r.invalidGate)))
	}
	if len(r.errors) > 0 {
		list = append(list, w.finding("result_error", field, protocol.Medium, strings.Join(r.errors, "; ")))
	}
	return list
}

// finding is about the worker's task. A user settles a finding of high severity.
func (w *worker) finding(code, field string, severity protocol.Severity, text string) protocol.Finding {
	f := protocol.Finding{Subject: task(w.task), Code: code, Field: field, Severity: severity, Text: text}
	if severity == protocol.High {
		f.Settle = "Reviewed"
	}
	return f
}

// findings lists everything that needs no repair of steward's.
func (v kanbanView) findings(verdicts map[string]verdict) []protocol.Finding {
	list := slices.Clone(v.board.lineFindings)
	for _, w := range v.workers.live {
		d, inHand := verdicts[w.task]
		newest := v.workers.newest(w.task) == w
		if v.isShown(w, inHand) {
			list = append(list, v.agentFindings(w)...)
		}
		if newest {
			list = append(list, v.taskFindings(w, d)...)
		}
	}
	for _, id := range sortedKeys(verdicts) {
		if run := verdicts[id].planner; run != "" {
			list = append(list, protocol.Finding{Subject: task(id), Code: "planning", Severity: protocol.Low, Text: "only a planning run works on it: " + run})
		}
	}
	return append(list, v.violationFindings()...)
}

// taskFindings lists what a task's newest worker reports, and the worker's violations.
func (v kanbanView) taskFindings(w *worker, d verdict) (list []protocol.Finding) {
	e := v.board.byID[w.task]
	if e == nil || e.marker != working && e.marker != approval && e.marker != failed {
		return nil
	}
	if word := w.violation; word.Good && word.Value != "" {
		severity := protocol.Low
		if strings.HasPrefix(word.Value, violationWord) {
			severity = protocol.High
		}
		list = append(list, w.finding("violation", violationFile, severity, w.name+" says: "+word.Value))
	}
	for _, entry := range slices.Backward(v.reported.Value) {
		if entry.worker == w.name && isRecent(entry.at, v.Since) {
			list = append(list, w.finding("violation", "violations.log", protocol.High, entry.text))
			break
		}
	}
	if e.marker == failed {
		return list // the task's failure contains the rest
	}
	for _, name := range sortedKeys(w.results) {
		list = append(list, stepFindings(w, w.results[name], name, v.Since)...)
	}
	if d.resume != "" {
		list = append(list, w.finding("resume_pending", "", protocol.Low, d.resume))
	}
	for _, text := range w.blocked.Value {
		list = append(list, w.finding("blocked", folder.Line(text, 80), protocol.Low, "its summary says that it is blocked: "+text))
	}
	return list
}
