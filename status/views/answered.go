package views

import (
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

// AnsweredIncident is the daemon's answer about one incident.
type AnsweredIncident struct {
	Incident escalate.Incident `json:"incident"`
}

// Answered says what an answer settles.
func Answered(p *terminal.Page, doc AnsweredIncident) {
	i := doc.Incident
	if i.Answer == nil {
		return
	}
	p.Line("answered: %s: %s", terminal.Clean(i.Summary), terminal.Clean(i.Answer.Label))
	if i.Subject().Kind == protocol.KindQuestion && i.Opened > 1 && !i.Opening.IsZero() {
		p.Line("  it was asked again at %s, after it had been settled; this answers the question of then", p.Clock(i.Opening))
	}
	if i.Answer.Stop {
		p.Line("  the agent is told to stop")
	} else if i.Answer.Option == "" {
		p.Line("  your own words settle the incident")
	}
	for _, requirement := range i.Answer.Requirements {
		p.Line("  new requirement: %s", terminal.Clean(requirement))
	}
	if i.Answer.Problem != "" {
		p.Line("  its asker does not wait any more: %s", terminal.Clean(i.Answer.Problem))
	}
}

func Acked(p *terminal.Page, q AnsweredIncident) {
	p.Line("acknowledged until %s: %s", p.Clock(q.Incident.AckedUntil), terminal.Clean(q.Incident.Summary))
}

func Snoozed(p *terminal.Page, q AnsweredIncident) {
	p.Line("quiet until %s: %s", p.Clock(q.Incident.AckedUntil), terminal.Clean(q.Incident.Summary))
}
