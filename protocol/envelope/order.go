package envelope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
	case string:
		roles = strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(",;>→+&", r) })
	case []string:
		if roles = slices.Clone(v); len(roles) == 0 {
			return documentRoles, nil
		}
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

// orderFindings reports the tasks that were assigned while an earlier step of the same project was open and no task of
// that step was done. Such a task is not held: a project may work on several features at once.
func (v *view) orderFindings(list []*task) (found []protocol.Finding) {
	type place struct {
		project string
		step    int
	}
	open := map[place]*task{}
	for _, t := range list {
		if at := (place{t.project(), stepOf(t)}); !t.over() && at.step > 0 && (open[at] == nil || t.begun.Before(open[at].begun)) {
			open[at] = t
		}
	}
	for _, t := range list {
		if t.over() || stepOf(t) == 0 || t.held() {
			continue
		}
		for step := 1; step < stepOf(t); step++ {
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
	return slices.ContainsFunc(v.ended, func(t *task) bool { return stepOf(t) == step && t.project() == project })
}

// stepOf returns the place of the task's agent in the order of work, or 0.
func stepOf(t *task) int {
	if t.assigned == nil {
		return 0
	}
	return steps[agentName(t.assigned.to)]
}

// act is what a duty of the orchestrator consists of.
type act uint8

const (
	actAcknowledge act = iota // take on a pipeline
	actAssign                 // the next task of a pipeline
	actFinish                 // a pipeline is complete
	actApprove                // a completion
	actReject                 // a completion
	actAsk                    // the human must decide
)

// duty is what the orchestrator must do now, by the document alone (protocol 004, Standard Feature Development Pipeline).
type duty struct {
	act   act
	task  *task    // the task that it is about
	issue []string // what is wrong with a completion; the question to the human, and its options
	// Of an assignment: its id and its agent, what it follows, and the review whose issues it must fix.
	id, role string
	after    []*task
	fixes    *task
}

// Bounds of what the orchestrator orders again without asking the human.
const (
	mostRejections = 3 // of one assignment
	mostReviews    = 3 // of one pipeline
)

// The human's options where a bound is reached.
const (
	optionAgain  = "Try once more"
	optionAccept = "Accept it as it is"
)

// duties lists what steward must do as the ORCHESTRATOR. Everything follows from the messages, so nothing is done twice.
func (v *view) duties() (list []duty) {
	if !v.opts.Validate {
		return nil
	}
	for _, t := range v.live {
		if t.assigned != nil && !t.over() && !t.stopped {
			list = append(append(list, validation(t)...), v.advance(t)...)
		}
	}
	return list
}

// validation judges a completion (protocol 004, Validation Rules). A security review is judged as a review: its verdict may
// be a refusal.
func validation(t *task) []duty {
	if t.stage != stageReview || !t.mustValidate() {
		return nil
	}
	out := t.done.output
	wrong := t.done.contradictions(t.assigned)
	if out.verdict.word == "" && out.lacks != "" && len(wrong) == 0 {
		wrong = []string{out.lacks}
	}
	asked, answer := appeal(t, t.done.at)
	switch {
	case len(wrong) == 0 || answer != nil && answer.answer.text == optionAccept:
		return []duty{{act: actApprove, task: t}}
	case asked != nil && answer == nil:
		return nil
	case asked == nil && t.rejections >= mostRejections:
		return []duty{{act: actAsk, task: t, issue: []string{fmt.Sprintf("%s was rejected %d times, and is not done: %s", t.id, t.rejections,
			strings.Join(wrong, "; ")), optionAgain, optionAccept}}}
	case answer != nil:
		wrong = append(wrong, answer.answer.text)
	}
	return []duty{{act: actReject, task: t, issue: wrong}}
}

// appeal returns the orchestrator's newest question to the human after that time, and its answer; nil if there is no such
// message.
func appeal(t *task, since time.Time) (asked, answer *message) {
	for _, m := range t.messages {
		switch {
		case m.kind == escalates && isOrchestrator(m.from) && m.at.After(since):
			asked, answer = m, nil
		case m.kind == resolves && m.answer.question == "" && asked != nil:
			answer = m
		}
	}
	for _, m := range t.messages { // in whole seconds, so it may stand before its question
		if asked != nil && m.kind == resolves && m.answer.question == questionID(asked) {
			answer = m
		}
	}
	return asked, answer
}

// advance returns the next steps of a pipeline.
func (v *view) advance(p *task) []duty {
	roles := p.assigned.assignment.pipeline
	switch {
	case !isOrchestrator(p.assigned.to) || p.stuck || p.held() || v.block(p) != "":
		return nil
	case len(roles) == 0 && p.stage == stageAssigned:
		return []duty{{act: actAsk, task: p, issue: []string{"steward directs pipelines only, and this assignment to ORCHESTRATOR names none", optionAgain}}}
	case len(roles) == 0:
		return nil
	case p.stage == stageAssigned:
		return []duty{{act: actAcknowledge, task: p}}
	}
	before := []*task{}
	for len(roles) > 0 {
		n := 1
		for n < len(roles) && steps[roles[n]] > 0 && steps[roles[n]] == steps[roles[0]] {
			n++
		}
		list, at := v.group(p, roles[:n], before)
		if at == nil {
			return list
		}
		if roles[0] == "SECURITY_AUDITOR" {
			if list, passed := v.review(p, at); !passed {
				return list
			}
		}
		roles, before = roles[n:], at
	}
	return []duty{{act: actFinish, task: p, after: before}}
}

// group returns the assignments that roles of one step still need, and the step's tasks once all of them are over.
func (v *view) group(p *task, roles []string, before []*task) (missing []duty, at []*task) {
	open := false
	for _, role := range roles {
		list := v.playing(p, role)
		if len(list) == 0 {
			missing = append(missing, duty{act: actAssign, task: p, id: stepID(p, role), role: role, after: before})
		}
		open = open || slices.ContainsFunc(list, func(t *task) bool { return !t.over() })
		at = append(at, list...)
	}
	if open || len(missing) > 0 {
		return missing, nil
	}
	return nil, at
}

func stepID(p *task, role string) string { return p.id + "-" + strings.ToLower(role) }

// playing returns the tasks of a role in a pipeline, oldest first: those that name the pipeline in related_tasks, and those
// of the same project that name no pipeline, which another orchestrator assigned since.
func (v *view) playing(p *task, role string) (list []*task) {
	for _, t := range v.tasks {
		if t.assigned == nil || t == p || t.begun.Before(p.begun) {
			continue
		}
		related := t.assigned.assignment.related
		named := slices.Contains(related, p.id)
		ours := t.project() == p.project() && !slices.ContainsFunc(related, func(id string) bool {
			other := v.tasks[id]
			return other != nil && other.assigned != nil && len(other.assigned.assignment.pipeline) > 0
		})
		if t.id == stepID(p, role) || agentName(t.assigned.to) == role && (named || ours) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *task) int { return cmp.Or(a.begun.Compare(b.begun), compareIDs(a, b)) })
	return list
}

// review returns what the newest security review of a pipeline asks for: DEVELOPER fixes its issues, then the code is
// reviewed again.
func (v *view) review(p *task, reviews []*task) (list []duty, passed bool) {
	last := reviews[len(reviews)-1]
	switch r := last.judged(); {
	case r == nil:
		return nil, false
	case !r.denies() && !r.conditional():
		return nil, true
	}
	fixes := slices.DeleteFunc(v.playing(p, "DEVELOPER"), func(t *task) bool { return t.begun.Before(last.end) })
	if slices.ContainsFunc(fixes, func(t *task) bool { return !t.over() }) {
		return nil, false
	}
	n := len(reviews)
	if len(fixes) > 0 {
		id := fmt.Sprintf("%s-%d", stepID(p, "SECURITY_AUDITOR"), n+1)
		return []duty{{act: actAssign, task: p, id: id, role: "SECURITY_AUDITOR", after: fixes}}, false
	}
	asked, answer := appeal(p, last.end)
	switch {
	case n >= mostReviews && asked == nil:
		return []duty{{act: actAsk, task: p, issue: []string{fmt.Sprintf("the security review failed %d times; the last one is %s", n, last.id), optionAgain}}}, false
	case asked != nil && answer == nil:
		return nil, false
	}
	id := fmt.Sprintf("%s-fix-%d", stepID(p, "DEVELOPER"), n)
	return []duty{{act: actAssign, task: p, id: id, role: "DEVELOPER", after: []*task{last}, fixes: last}}, false
}
