package envelope

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// steps are the roles' places in the document's order of work (protocol 004, Standard Feature Development Pipeline).
var steps = map[string]int{"ARCHITECT": 1, "DESIGNER": 2, "DEVELOPER": 3, "INTEGRATIONS": 3, "TESTING": 4, "SECURITY_AUDITOR": 5,
	"DOCUMENTATION": 6, "DEPLOYMENT": 6}

// documentRoles is the document's order of work, for pipelines that name none.
var documentRoles = []string{"ARCHITECT", "DESIGNER", "DEVELOPER", "INTEGRATIONS", "TESTING", "SECURITY_AUDITOR", "DOCUMENTATION", "DEPLOYMENT"}

// pipelineRoles reads the order of roles of a pipeline: a list, or a text with commas or arrows. Neighbours of one step of
// the document work in parallel; every other role is a step of its own. The error lists every problem.
func pipelineRoles(given any) (roles []string, err error) {
	switch v := given.(type) {
	case nil:
		return documentRoles, nil
	case string:
		roles = strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(",;>→+&", r) })
	case []string:
		roles = slices.Clone(v)
	case []any:
		for _, role := range v {
			roles = append(roles, fmt.Sprint(role))
		}
	}
	var problems []string
	last := 0
	for i, role := range roles {
		roles[i] = agentName(role)
		step := steps[roles[i]]
		switch {
		case !plain(roles[i]) || isOrchestrator(roles[i]):
			problems = append(problems, fmt.Sprintf("pipeline: %q is not a role that can work in it", clean(role, 60)))
		case slices.Contains(roles[:i], roles[i]):
			problems = append(problems, "pipeline: "+roles[i]+" is listed twice")
		case step > 0 && step < last:
			problems = append(problems, "pipeline: "+roles[i]+" comes earlier in the document's order")
		case roles[i] == "DEPLOYMENT" && !slices.Contains(roles[:i], "SECURITY_AUDITOR"):
			problems = append(problems, "pipeline: no deployment without SECURITY_AUDITOR before it")
		}
		last = max(last, step)
	}
	if len(roles) == 0 {
		problems = []string{"pipeline: it lists no role"}
	}
	return roles, folder.Invalid(problems)
}

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
