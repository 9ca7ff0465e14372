package mailbox

import (
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// quiet records since when a role has shown no sign of life.
type quiet struct {
	mark  string // its entry in status.json
	since time.Time
}

// listen records which roles have shown signs of life: the time that a role states, or any change to its entry.
func (p *Project) listen(b *board, touched time.Time) {
	known := p.quiet
	p.quiet = make(map[string]quiet, len(b.roles))
	for i := range b.roles {
		r := &b.roles[i]
		q, old := known[r.name]
		if !old || q.mark != r.mark {
			at := p.past(r.at)
			switch written := p.past(touched); {
			case old && (r.stated.Zoneless || written.Sub(at) > jsonfile.ClockSlack):
				at = later(q.since, written)
			case old && !at.After(q.since):
				at = p.Now
			case at.IsZero():
				at = p.past(touched)
			}
			q = quiet{r.mark, at}
		}
		p.quiet[r.name] = q
	}
	if len(b.roles) == 0 && known != nil { // a file that is missing for a moment says nothing about the roles
		p.quiet = known
	}
}

// overLimit lists the roles that work for a living orchestrator and have been silent for longer than allowed. Silence does
// not prove a role dead. Time before the orchestrator was running is not counted.
func (p *Project) overLimit(b *board) (list []protocol.Finding) {
	for i := range b.roles {
		r := &b.roles[i]
		limit := r.limit(p.opts)
		if !p.atWork(r) || limit <= 0 {
			continue
		}
		since := later(p.quiet[r.name].since, p.past(p.chief.by))
		if due := since.Add(limit); p.Now.Before(due) {
			p.Patience.RetryAt(due)
			continue
		}
		list = append(list, protocol.Finding{Subject: about(protocol.KindAgent, r.name), Code: "over_limit", Field: "lastActivity", Severity: protocol.High,
			Text: fmt.Sprintf("%s has been silent at its work since %s; its limit is %s", r.name, jsonfile.FormatTime(since), minutes(limit))})
	}
	return list
}

// readWithin is how long a message may stay unread.
const readWithin = 10 * time.Minute

// unread lists the mailboxes in use with unread messages (protocol 003, Reading Messages: "Update lastRead timestamp"). It
// uses the file's own age, because agents invent timestamps. The program writes null for lastRead and never updates it, so
// null says nothing while its orchestrator lives.
func (p *Project) unread(mail []located, open map[string]bool) (list []protocol.Finding) {
	for _, m := range mail {
		box := &m.box.Value
		if !m.living || box.lastRead.At.IsZero() && p.chief.lives() {
			continue
		}
		n := 0
		for i := range box.letters {
			if l := &box.letters[i]; !box.readBy(l) && (l.task == "" || open[l.task]) {
				n++
			}
		}
		since := p.past(m.box.Stamp.ModTime())
		switch due := since.Add(readWithin); {
		case n == 0:
		case p.Now.Before(due):
			p.Patience.RetryAt(due)
		default:
			list = append(list, protocol.Finding{Subject: about(protocol.KindProject, m.file), Code: "unread", Field: "lastRead", Severity: protocol.Medium,
				Text: fmt.Sprintf("%s in %s for over %s, and lastRead does not show that it was read", lie(n, "message"), m.file, minutes(readWithin))})
		}
	}
	return list
}

// minutes formats a limit for display.
func minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}
