package ralph

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// fixLoop is the number of runs of a step from which a FIX counts as a loop (protocol 002, Fix-retry loop).
const fixLoop = 3

// steps lists the newest result of each of a worker's steps (protocol 002, Result File Format), oldest first.
func (p *Project) steps(w *worker) []protocol.Step {
	var list []protocol.Step
	for _, kind := range sortedKeys(w.results) {
		s := w.results[kind]
		if !s.doc.Good {
			continue
		}
		r := s.doc.Value
		t := protocol.Step{Name: folder.Line(kind, 80), Gate: r.gate, Status: r.status, ExitCode: r.exitCode, Seconds: r.seconds,
			Iterations: r.iterations, Runs: s.runs, PR: r.pr, At: s.when()}
		report := path.Join(w.dir(), reportsDir, fmt.Sprintf("%d-%s-report.md", s.epoch, kind))
		if st, err := p.Root.Stat(report); err == nil && st.Mode.IsRegular() {
			t.Report = p.Shown(report)
		}
		if w.names[logsDir] {
			t.Logs = p.Shown(path.Join(w.dir(), logsDir))
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b protocol.Step) int { return a.At.Compare(b.At) })
	return list
}

// read names the folders with more detail about a worker's results; "" if it has none. It does not name files: they come
// and go, and each time the finding's text would change.
func (w *worker) read() string {
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

// blocking names the open tasks that depend on a failed task; "" if there are none.
func (p *Project) blocking(id string) string {
	var ids []string
	for _, i := range p.board.open {
		if it := &p.board.file.Value[i]; slices.Contains(it.related, id) {
			ids = append(ids, it.id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; it blocks " + folder.Line(strings.Join(ids, ", "), 200)
}

// reason says why a worker's task failed, as far as the worker's files show it.
func reason(w *worker) string {
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
	return folder.Line(strings.TrimSuffix(fmt.Sprintf("%s: %s %s", folder.Line(kind, 80), last.doc.Value.gate, strings.Join(last.doc.Value.errors, "; ")), " "), 400) + w.read()
}

// stepFindings reports a step's newest gate (protocol 002, Gate Result Values). A value that the agent defined has no
// meaning for steward.
func (p *Project) stepFindings(w *worker, s *step, name string, add func(code, field string, severity protocol.Severity, format string, args ...any)) {
	if !s.doc.Good || !p.isRecent(s.when()) {
		return
	}
	r := s.doc.Value
	switch {
	case r.gate == "FAIL":
		add("gate", name, protocol.High, "%s", strings.TrimSuffix("the gate says FAIL: "+strings.Join(r.errors, "; "), ": ")+w.read())
		return
	case r.gate == "FIX" && s.runs >= fixLoop:
		add("fix_loop", name, protocol.Medium, "the gate says FIX after %d runs%s", s.runs, w.read())
	case r.gate == "FIX":
		add("gate", name, protocol.Low, "the gate says FIX")
	case r.odd != "":
		add("schema", name, protocol.Low, "gate_result is %s, which is no word of three to ten capitals", r.odd)
	}
	if len(r.errors) > 0 {
		add("result_error", name, protocol.Medium, "%s", strings.Join(r.errors, "; "))
	}
}

// Reads reports whether the last scan read the file (relative to the project), and what a step's result in it says. Only a
// worker's newest files count, and only while its task is open or ended recently.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	for _, w := range p.live {
		own, mine := strings.CutPrefix(rel, w.dir()+"/")
		for name, s := range w.results {
			if mine && own == path.Join(resultsDir, s.file) {
				p.stepFindings(w, s, name, func(code, field string, severity protocol.Severity, format string, args ...any) {
					fields = append(fields, protocol.Finding{Subject: task(w.task), Code: code, Field: field, Severity: severity, Text: fmt.Sprintf(format, args...), Path: file})
				})
				return fields, inside
			}
		}
		read = read || mine && (rel == w.pointAt || rel == w.summaryAt || own == resumeFile || own == violationFile || slices.Contains(pidFiles[:], own))
	}
	return nil, inside && (read || rel == kanbanFile)
}
