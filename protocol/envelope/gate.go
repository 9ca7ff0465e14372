package envelope

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// agentName folds an agent's name and removes the suffix AGENT, which some add.
func agentName(name string) string { return strings.TrimSuffix(fold(name), "_AGENT") }

func isAuditor(name string) bool { return agentName(name) == "SECURITY_AUDITOR" }

// orchestrator is the document's name of the agent that directs the others.
const orchestrator = "ORCHESTRATOR"

func isOrchestrator(name string) bool { return agentName(name) == orchestrator }

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

// decision is the security gate's decision on a deployment: why it must wait, or a notice about a condition.
type decision struct{ block, notice string }

// decide judges a deployment by what was known at that time (protocol 004, Security Gate Protocol: NO DEPLOYMENT without
// SECURITY_AUDITOR approval). See docs/decisions.md, "The security gate fails open".
func decide(b *board, deployment *message, at time.Time) decision {
	why := func(format string, args ...any) decision {
		return decision{block: "security: " + fmt.Sprintf(format, args...)}
	}
	r, by := approval(b, deployment, at)
	switch {
	case r == nil && by != "":
		return why("no approval yet from %s", by)
	case r == nil && deployment.project() != "":
		return why("no approval by SECURITY_AUDITOR for project %q", deployment.project())
	case r == nil:
		return why("no approval by SECURITY_AUDITOR")
	case r.void:
		return why("no approval: the review %s was itself rejected", by)
	case r.word == verdictRejected:
		return why("%s says REJECTED", by)
	case r.blocking:
		return why("%s says blocking_deployment", by)
	case r.word != verdictApproved && r.word != verdictConditional:
		return why("no approval: %s says %q", by, r.word)
	case r.contradiction != "":
		return why("no valid approval by %s: the approval contradicts itself: %s", by, r.contradiction)
	}
	if last := lastDelivery(b, deployment.project(), at); !last.IsZero() && !r.at.After(last) {
		return why("the approval by %s is older than the last DEVELOPER or INTEGRATIONS completion", by)
	}
	switch {
	case !r.conditional():
		return decision{}
	case deployment.assignment.production:
		return why("%s; fix before production", r.condition())
	}
	return decision{notice: r.notice()}
}

// decideAll judges the deployments of one task: each must be approved, regardless of later assignments.
func decideAll(b *board, deployments []*message, at time.Time) decision {
	var blocks, notices []string
	add := func(list []string, text string) []string {
		if text == "" || slices.Contains(list, text) {
			return list
		}
		return append(list, text)
	}
	for _, m := range deployments {
		d := decide(b, m, at)
		blocks, notices = add(blocks, d.block), add(notices, d.notice)
	}
	return decision{strings.Join(blocks, "; "), strings.Join(notices, "; ")}
}

// approval returns the review that decides a deployment at that time, and the review's task: the newest review of the
// security tasks that the deployment names, else the newest of its project. If by is set and r is nil, the named review
// does not exist yet.
func approval(b *board, deployment *message, at time.Time) (r *review, by string) {
	for _, id := range slices.Concat(deployment.assignment.related, deployment.assignment.blockedBy) {
		o := b.tasks[id]
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
	if p := b.projects[deployment.project()]; by == "" && p != nil {
		for _, n := range p.reviews {
			if !n.at.After(at) {
				r = n
			}
		}
	}
	if r != nil {
		by = r.task
	}
	return r, by
}

// lastDelivery returns the time of the project's last completion by DEVELOPER or INTEGRATIONS up to that time.
func lastDelivery(b *board, project string, at time.Time) (last time.Time) {
	if p := b.projects[project]; p != nil {
		for _, delivery := range p.deliveries {
			if !delivery.After(at) {
				last = delivery
			}
		}
	}
	return last
}
