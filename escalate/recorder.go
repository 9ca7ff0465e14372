package escalate

import (
	"log/slog"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// recorder writes the dispatcher's work to the incidents. A write that fails is logged; the incident keeps the change in
// memory and writes it later.
type recorder struct {
	incidents *Incidents
	now       func() time.Time
	log       *slog.Logger
	// Told, if set before Run, is called with the result of each delivery attempt, but not with repeats of the same
	// failure.
	Told func(i Incident, d Delivery)
}

// record writes a delivery, with the present time. settled: the notice needs no further attempt.
func (r *recorder) record(key string, d Delivery, settled bool) {
	d.At = r.now()
	if i, known := r.incidents.get(key); known && r.Told != nil && d.isNews(i) {
		r.Told(i, d)
	}
	if err := r.incidents.Record(key, d, settled); err != nil {
		r.log.Error("record delivery", "key", key, "channel", d.Channel, "error", err)
	}
}

// postponed records, once per notice, why a notice is postponed.
func (r *recorder) postponed(i Incident, p postponement) {
	if p.result != "" && !i.hasResult(p.result) {
		r.record(i.Key, Delivery{Channel: "none", Result: p.result, Rev: i.Notice, Error: p.why}, false)
	}
}

// catchUp extends a postponed notice to the channels that became due meanwhile.
func (r *recorder) catchUp(i Incident, route routes, now time.Time) Incident {
	extend := func(i Incident) (Incident, bool, error) {
		i, due := catchUp(i, route.cfg.ladder(i), route.channels, wall(now))
		return i, due, nil
	}
	if _, due, _ := extend(i); !due {
		return i
	}
	up, err := r.incidents.change(i.Key, extend)
	if err != nil {
		r.log.Error("write incident", "key", i.Key, "error", err)
	}
	return up
}

// begin records that a sentence is about to be spoken: after a kill in mid-sentence it may be repeated once, not
// twice.
func (r *recorder) begin(channel string, news []Incident) {
	for _, i := range news {
		word := ResultBegun
		if i.hasResult(ResultBegun) || i.hasResult(ResultAgain) {
			word = ResultAgain
		}
		r.record(i.Key, Delivery{Channel: channel, Result: word, Rev: i.Notice}, false)
	}
}

// interrupted records that a sentence was interrupted because steward stopped. Unlike after a kill, the sentence is
// simply spoken again.
func (r *recorder) interrupted(res deliveryResult) {
	for _, q := range res.call.queued {
		for _, m := range q.members {
			if res.call.told[m.key] {
				r.record(m.key, Delivery{Channel: res.channel.Name, Result: ResultFailed, Rev: m.rev, Error: "steward stopped"}, false)
			}
		}
	}
}

// brokenKey is the incident that no channel works. It is only listed, because it cannot be delivered.
var brokenKey = brokenAlert("").Tidy().Key

func brokenAlert(detail string) rules.Alert {
	return rules.Alert{Kind: "notifier_broken", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "notifier"},
		Severity: protocol.High, Summary: "No channel could reach you", Detail: detail, Foreign: true, ListOnly: true}
}

// raiseBroken raises the incident that no channel works; resolveBroken resolves it.
func (r *recorder) raiseBroken(detail string) {
	if _, _, err := r.incidents.Raise(brokenAlert(detail), r.now()); err != nil {
		r.log.Error("raise notifier_broken", "error", err)
	}
}

func (r *recorder) resolveBroken(channel string) {
	if i, ok := r.incidents.get(brokenKey); !ok || i.State == rules.Resolved {
		return
	}
	if _, err := r.incidents.Resolve(brokenKey, rules.ByFiles, channel+" delivers again", r.now()); err != nil {
		r.log.Error("resolve notifier_broken", "error", err)
	}
}
