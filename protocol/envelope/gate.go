package envelope

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol"
)

// agentName folds an agent's name and removes the suffix AGENT, which some add.
func agentName(name string) string { return strings.TrimSuffix(fold(name), "_AGENT") }

func isAuditor(name string) bool { return agentName(name) == "SECURITY_AUDITOR" }

// deployers are the names of agents whose tasks are all deployments.
type deployers []string

// has reports whether a task for that agent is a deployment.
func (d deployers) has(name string) bool {
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune(",;/|+&", r) }) {
		if part = agentName(part); part != "" && slices.ContainsFunc(d, func(known string) bool { return agentName(known) == part }) {
			return true
		}
	}
	return false
}

// productionWord matches production. Its first group matches words that exclude production: "before production", "must
// not touch production". Only unambiguous words may stand in between: in doubt, the text means production.
var productionWord = lazily(`(?i)(before[ -](?:the |go(?:ing)?[ -])?|pre[ -]?|non[ -]?|` +
	`\b(?:not|no|never|nor|without|cannot|\w+n['’]t)(?:\s+(?:be|go|going|touch(?:ing)?|affect(?:ing)?|change|reach|use|deploy(?:ed)?|release(?:d)?|push(?:ed)?|roll(?:ed)?|out|in|on|to|into|for|the|a|any|our)){0,4}[\s-]+)?` +
	`\b(?:prod(?:uction)?|live)\b`)

// namesProduction reports whether a text names production itself, and not a stage before it.
func namesProduction(text string) bool {
	return slices.ContainsFunc(productionWord().FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] == "" })
}

// ruling is the security gate's decision on a deployment: why it must wait, or a notice about a condition.
type ruling struct{ block, notice string }

// gate judges a deployment by what was known at that time (protocol 004, Security Gate Protocol: NO DEPLOYMENT without
// SECURITY_AUDITOR approval).
func (p *Project) gate(deployment *message, at time.Time) ruling {
	r, by := p.approval(deployment, at)
	switch {
	case r == nil && by != "":
		return ruling{block: fmt.Sprintf("security: no approval yet from %s", by)}
	case r == nil:
		return ruling{block: fmt.Sprintf("security: no approval by SECURITY_AUDITOR%s", ofProject(deployment))}
	case r.void:
		return ruling{block: fmt.Sprintf("security: no approval: the review %s was itself rejected", by)}
	case r.word == verdictRejected:
		return ruling{block: fmt.Sprintf("security: %s says REJECTED", by)}
	case r.blocking:
		return ruling{block: fmt.Sprintf("security: %s says blocking_deployment", by)}
	case r.word != verdictApproved && r.word != verdictConditional:
		return ruling{block: fmt.Sprintf("security: no approval: %s says %q", by, r.word)}
	case r.contra != "":
		return ruling{block: fmt.Sprintf("security: no valid approval by %s: the approval contradicts itself: %s", by, r.contra)}
	}
	if last := p.lastDelivery(deployment.project(), at); !last.IsZero() && !r.at.After(last) {
		return ruling{block: fmt.Sprintf("security: the approval by %s is older than the last DEVELOPER or INTEGRATIONS completion", by)}
	}
	switch {
	case !r.conditional():
		return ruling{}
	case deployment.assignment.production:
		return ruling{block: fmt.Sprintf("security: %s; fix before production", r.condition())}
	}
	return ruling{notice: r.notice()}
}

// notice describes a conditional approval that does not block.
func (r *review) notice() string {
	return r.condition() + ": minor issues are to be fixed before production"
}

// gateAll judges the deployments of one task: each must be approved, regardless of later assignments.
func (p *Project) gateAll(deployments []*message, at time.Time) ruling {
	var blocks, notices []string
	for _, m := range deployments {
		r := p.gate(m, at)
		if r.block != "" && !slices.Contains(blocks, r.block) {
			blocks = append(blocks, r.block)
		}
		if r.notice != "" && !slices.Contains(notices, r.notice) {
			notices = append(notices, r.notice)
		}
	}
	return ruling{strings.Join(blocks, "; "), strings.Join(notices, "; ")}
}

func ofProject(m *message) string {
	if m.project() == "" {
		return ""
	}
	return fmt.Sprintf(" for project %q", m.project())
}

// approval returns the review that decides a deployment at that time, and the review's task: the newest review of the
// security tasks that the deployment names, else the newest of its project. If by is set and r is nil, the named review
// does not exist yet.
func (p *Project) approval(deployment *message, at time.Time) (r *review, by string) {
	for _, id := range slices.Concat(deployment.assignment.related, deployment.assignment.blockedBy) {
		o := p.tasks[id]
		if o == nil || len(o.reviews) == 0 && (o.assigned == nil || !isAuditor(o.assigned.to)) {
			continue
		}
		if by == "" {
			by = id
		}
		for i := range o.reviews {
			if n := &o.reviews[i]; !n.at.After(at) && (r == nil || n.compare(r) > 0) {
				r = n
			}
		}
	}
	if d := p.projects[deployment.project()]; by == "" && d != nil {
		d.tell()
		if i := until(d.reviews, at, func(r *review) time.Time { return r.at }); i > 0 {
			r = d.reviews[i-1]
		}
	}
	if r != nil {
		by = r.task
	}
	return r, by
}

// compare orders reviews by precedence: the newer review is greater, and at the same time the less permissive one.
func (r *review) compare(than *review) int {
	less := func(r *review) int {
		switch {
		case r.denies():
			return 2
		case r.conditional():
			return 1
		}
		return 0
	}
	return cmp.Or(r.at.Compare(than.at), cmp.Compare(less(r), less(than)), cmp.Compare(r.task, than.task))
}

// until returns how many items of a list sorted by time are not later than at.
func until[T any](list []T, at time.Time, of func(T) time.Time) int {
	n, _ := slices.BinarySearchFunc(list, at, func(item T, at time.Time) int {
		if of(item).After(at) {
			return 1
		}
		return -1
	})
	return n
}

// lastDelivery returns the time of the project's last completion by DEVELOPER or INTEGRATIONS up to that time.
func (p *Project) lastDelivery(project string, at time.Time) time.Time {
	d := p.projects[project]
	if d == nil {
		return time.Time{}
	}
	d.tell()
	if i := until(d.deliveries, at, func(t time.Time) time.Time { return t }); i > 0 {
		return d.deliveries[i-1]
	}
	return time.Time{}
}

// gateFindings reports on open deployments, and on a deployment that did not wait for the security gate.
func (p *Project) gateFindings(t *taskState) []issue {
	if list := t.deployments(); len(list) > 0 {
		return p.comingFindings(t, list)
	}
	if t.assigned.deploys == deploysMaybe && !t.over() {
		return p.suspectFindings(t)
	}
	if t.deployed == nil || t.taken.IsZero() && !t.over() {
		return nil
	}
	until := p.Now
	if t.over() {
		until = t.end
	}
	r := p.gate(t.deployed, t.takenOr(until))
	if r.block == "" || p.gate(t.deployed, until).block == "" {
		return nil
	}
	return []issue{{code: "security_bypassed", severity: protocol.Critical, text: fmt.Sprintf("deployment %s went ahead although: %s", t.id, r.block)}}
}

// suspectFindings reports a task that may be a deployment. It is not held, because it may equally be other work.
func (p *Project) suspectFindings(t *taskState) []issue {
	r := p.gate(t.assigned, p.Now)
	if r.block == "" {
		return nil
	}
	severity := protocol.Medium
	if t.assigned.assignment.production {
		severity = protocol.High
	}
	return []issue{{code: "security_gate", severity: severity,
		text: fmt.Sprintf("%s may be a deployment and is not held: %s; if it is one, begin its task_name with \"Deploy\" or assign it to DEPLOYMENT", t.id, r.block)}}
}

// comingFindings reports on deployments that no agent has taken in hand.
func (p *Project) comingFindings(t *taskState, deployments []*message) []issue {
	var list []issue
	switch r := p.gateAll(deployments, p.Now); {
	case r.block != "":
		text := fmt.Sprintf("deployment %s must wait: %s", t.id, r.block)
		if slices.ContainsFunc(deployments, (*message).inLog) {
			text += "; the assignment cannot be held: it stands in a log"
		}
		list = append(list, issue{code: "security_gate", severity: protocol.Critical, text: text})
	case r.notice != "":
		list = append(list, issue{code: "security_conditional", severity: protocol.Low, text: r.notice})
	}
	if a, b := t.reassigned(); b != nil {
		list = append(list, issue{code: "reassigned", severity: protocol.Medium, text: fmt.Sprintf("it is assigned to %s (%s) and to %s (%s); it stays a deployment until %s answers",
			clean(a.to, 80), openName(path.Base(a.file)), clean(b.to, 80), openName(path.Base(b.file)), clean(a.to, 80))})
	}
	return list
}

func (t *taskState) takenOr(at time.Time) time.Time {
	if t.taken.IsZero() {
		return at
	}
	return t.taken
}

// lazily compiles a pattern on first use: short steward commands need no pattern.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
