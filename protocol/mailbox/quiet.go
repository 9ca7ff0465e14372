package mailbox

import (
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// quiet is since when a role has shown no life.
type quiet struct {
	mark  string // its entry in status.json
	since time.Time
}

// listen notes which roles have shown life: by the time that they give, and by any change to their entry.
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
	if len(b.roles) == 0 && known != nil { // a file that is gone for a moment says nothing about anybody
		p.quiet = known
	}
}

// overLimit lists the roles that work for a living orchestrator and are silent for longer than they may be. Nobody is
// dead for that. What came before the orchestrator was there is not counted.
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

// readWithin is how long a message may wait for its reader.
const readWithin = 10 * time.Minute

// unread lists the mailboxes in use whose newest messages nobody has read (protocol 003, Reading Messages: "Update lastRead
// timestamp"). The file's own age counts: agents invent timestamps. The program writes null for lastRead and never updates
// it, so null says nothing while its orchestrator lives.
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

// minutes writes a limit as people say it.
func minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}
