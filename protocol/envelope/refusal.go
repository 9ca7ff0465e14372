package envelope

import (
	"fmt"

	"github.com/livhana/steward/protocol"
)

// refusalLasts is how long a security rejection without a reaction is reported.
const refusalLasts = 7 * day

// refusalFindings reports security rejections (protocol 004, Approval Status) without a reaction: no newer review of the
// project, no delivery since. If a deployment waits for the review, the gate reports that instead.
func (p *Project) refusalFindings(list []*taskState) (found []protocol.Finding) {
	var awaited map[string]bool // reviews that decide an open deployment; computed only once a rejection is found
	for _, project := range sortedKeys(p.projects) {
		d := p.projects[project]
		d.tell()
		if len(d.reviews) == 0 {
			continue
		}
		r := d.reviews[len(d.reviews)-1]
		refused := r.word == verdictRejected || r.blocking
		if n := len(d.deliveries); !refused || r.void || n > 0 && d.deliveries[n-1].After(r.at) || p.due(r.at.Add(refusalLasts)) {
			continue
		}
		if awaited == nil {
			awaited = p.awaited(list)
		}
		if !awaited[r.task] {
			found = append(found, protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindTask, ID: r.task}, Code: "security_rejected",
				Severity: protocol.High, Text: r.refusal(), Path: r.file, Call: true, Settle: "Taken care of"})
		}
	}
	return found
}

// refusal describes in one line why a review forbids deployment.
func (r *review) refusal() string {
	text := fmt.Sprintf("the security review %s says REJECTED", clean(r.task, maxText))
	switch {
	case r.word == verdictRejected:
	case r.blocking:
		text = fmt.Sprintf("the security review %s says blocking_deployment", clean(r.task, maxText))
	case r.contra != "":
		return clean(fmt.Sprintf("the security review %s contradicts itself: %s", r.task, r.contra), maxText)
	default:
		text = fmt.Sprintf("the security review %s says %q", clean(r.task, maxText), r.word)
	}
	if said := clean(r.text, maxText); said != "" {
		text += ": " + said
	}
	return text
}

// awaited returns the tasks whose reviews decide an open deployment.
func (p *Project) awaited(list []*taskState) map[string]bool {
	reviews := map[string]bool{}
	for _, t := range list {
		for _, m := range t.deployments() {
			if r, _ := p.approval(m, p.Now); r != nil {
				reviews[r.task] = true
			}
		}
	}
	return reviews
}
