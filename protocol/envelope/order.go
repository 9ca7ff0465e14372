package envelope

import (
	"fmt"
	"slices"

	"github.com/livhana/steward/protocol"
)

// steps are the roles' places in the document's order of work (protocol 004, Standard Feature Development Pipeline).
var steps = map[string]int{"ARCHITECT": 1, "DESIGNER": 2, "DEVELOPER": 3, "INTEGRATIONS": 3, "TESTING": 4, "SECURITY_AUDITOR": 5,
	"DOCUMENTATION": 6, "DEPLOYMENT": 6}

// step returns the place of the task's agent in the order of work, or 0.
func (t *task) step() int {
	if t.assigned == nil {
		return 0
	}
	return steps[agentName(t.assigned.to)]
}

// orderFindings reports the tasks that were assigned while an earlier step of the same project was open and no task of
// that step was done. Such a task is not held: a project may work on several features at once.
func (v *view) orderFindings(list []*task) (found []protocol.Finding) {
	type place struct {
		project string
		step    int
	}
	open := map[place]*task{}
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
			if o == nil || o.begun.After(t.begun) || v.stepDone(t.project(), step) || v.block(t) != "" {
				continue
			}
			text := fmt.Sprintf("it is assigned to %s before %s (%s) is done", t.assigned.to, o.id, o.assigned.to)
			f := finding("order", protocol.Low, "%s", clean(text, maxText))
			f.Subject, f.Path = protocol.Subject{Kind: protocol.KindTask, ID: t.id}, t.assigned.file
			found = append(found, f)
			break
		}
	}
	return found
}

// stepDone reports whether a task of that step has ended in the project.
func (v *view) stepDone(project string, step int) bool {
	return slices.ContainsFunc(v.ended, func(t *task) bool { return t.step() == step && t.project() == project })
}
