package envelope

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// stepOf returns an agent's step in the document's order of work (protocol 004, Standard Feature Development Pipeline),
// or 0.
func stepOf(agent string) int {
	switch agentName(agent) {
	case "ARCHITECT":
		return 1
	case "DESIGNER":
		return 2
	case "DEVELOPER", "INTEGRATIONS":
		return 3
	case "TESTING":
		return 4
	case "SECURITY_AUDITOR":
		return 5
	case "DOCUMENTATION", "DEPLOYMENT":
		return 6
	}
	return 0
}

// orderFindings reports the tasks that were assigned while an earlier step of the same project was open and no task of
// that step was done. Such a task is not held: a project may work on several features at once.
func (p *Project) orderFindings(list []*taskState) (found []protocol.Finding) {
	type place struct {
		project string
		step    int
	}
	open := map[place]*taskState{}
	for _, t := range list {
		if at := (place{t.project(), t.step()}); !t.over() && at.step > 0 && (open[at] == nil || t.begun.Before(open[at].begun)) {
			open[at] = t
		}
	}
	for _, t := range list {
		if t.over() || t.step() == 0 || t.held() {
			continue
		}
		for step := 1; step < t.step(); step++ {
			o := open[place{t.project(), step}]
			if o == nil || o.begun.After(t.begun) || p.stepDone(t.project(), step) || p.block(t) != "" {
				continue
			}
			found = append(found, protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindTask, ID: t.id}, Code: "order", Severity: protocol.Low, Path: t.assigned.file,
				Text: clean(fmt.Sprintf("it is assigned to %s before %s (%s) is done", t.assigned.to, o.id, o.assigned.to), maxText)})
			break
		}
	}
	return found
}

func (t *taskState) step() int {
	if t.assigned == nil {
		return 0
	}
	return stepOf(t.assigned.to)
}

// stepDone reports whether a task of that step has ended in the project.
func (p *Project) stepDone(project string, step int) bool {
	return slices.ContainsFunc(p.ended, func(t *taskState) bool { return t.step() == step && t.project() == project })
}

// unreviewedFindings reports valid approvals whose review was not asked to read files delivered since the previous
// approval (protocol 004, Security Review Flow). Lists of files are patterns and often short, so this is only a finding.
func (p *Project) unreviewedFindings() (found []protocol.Finding) {
	for _, project := range sortedKeys(p.projects) {
		d := p.projects[project]
		d.tell()
		if len(d.reviews) == 0 {
			continue
		}
		r := d.reviews[len(d.reviews)-1]
		o := p.tasks[r.task]
		if r.denies() || o == nil || o.assigned == nil || len(o.assigned.assignment.files) == 0 {
			continue
		}
		if !d.compared {
			d.missed, d.compared = d.unreviewed(o.assigned.assignment.files), true
		}
		if missed := d.missed; len(missed) > 0 {
			found = append(found, protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindTask, ID: r.task}, Code: "unreviewed", Field: "files_to_review", Severity: protocol.Medium,
				Path: r.file, Text: clean(fmt.Sprintf("it approves, and its files_to_review do not name what was delivered: %s", strings.Join(missed, ", ")), maxText)})
		}
	}
	return found
}

// unreviewed returns the files delivered between the previous approval and the last review that no pattern covers.
func (d *dossier) unreviewed(patterns []string) (missed []string) {
	last := len(d.reviews) - 1
	since := time.Time{}
	for _, r := range d.reviews[:last] {
		if !r.denies() {
			since = r.at
		}
	}
	for _, id := range sortedKeys(d.tasks) {
		for _, m := range d.tasks[id].messages {
			if m.kind != completes || m.output.verdict.word != "" || m.at.After(d.reviews[last].at) || !m.at.After(since) {
				continue
			}
			for _, file := range m.output.files {
				if !covers(patterns, file) && !slices.Contains(missed, file) && len(missed) < maxItems {
					missed = append(missed, file)
				}
			}
		}
	}
	return missed
}

// covers reports whether one of the patterns names the file: as its path or the end of its path, as a folder above it, or
// with * for any text.
func covers(patterns []string, file string) bool {
	file = path.Clean(file)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = path.Clean(strings.TrimSpace(pattern))
		parts := strings.Split(pattern, "*")
		if len(parts) == 1 {
			return pattern == "." || file == pattern || strings.HasPrefix(file, pattern+"/") || strings.HasSuffix(file, "/"+pattern)
		}
		rest, ok := strings.CutPrefix(file, parts[0])
		for _, part := range parts[1:] {
			at := strings.Index(rest, strings.TrimPrefix(part, "/"))
			if ok = ok && at >= 0; !ok {
				return false
			}
			rest = rest[at+len(strings.TrimPrefix(part, "/")):]
		}
		return ok && (parts[len(parts)-1] == "" || strings.HasSuffix(file, strings.TrimPrefix(parts[len(parts)-1], "/")))
	})
}
