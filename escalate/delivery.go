package escalate

import (
	"slices"
	"time"
)

// Delivery is one attempt to reach the operator, with its proof.
type Delivery struct {
	Channel string `json:"channel"`
	// Result is the channel's own word on success ("shown", "spoken"), otherwise one of the Result constants.
	Result string    `json:"result"`
	At     time.Time `json:"at"`
	OK     bool      `json:"ok"`
	Error  string    `json:"error,omitempty"`
	// Rev is the Notice that was delivered.
	Rev int `json:"rev"`
	// Popup is the key of the popup that is on screen since this delivery or, if not OK, may still appear. A summary
	// has its own key.
	Popup string `json:"popup,omitempty"`
	// Recovery: the notice said that the incident is over.
	Recovery bool `json:"recovery,omitempty"`

	rung time.Duration // time of the ladder's first rung, for the first delivery
}

// The results that are not a channel's own word.
const (
	ResultDelivered = "delivered" // success, for a channel without its own word
	ResultFailed    = "failed"
	ResultTimeout   = "timeout"
	ResultDropped   = "dropped"   // too old to be spoken, or cut short
	ResultWithdrawn = "withdrawn" // the popup was removed
	ResultStuck     = "stuck"     // the popup could not be removed
	ResultUnwanted  = "unwanted"  // no configured channel accepts the notice
	ResultQuiet     = "quiet"     // waits for the end of the quiet hours
	ResultInhibited = "inhibited" // waits because another incident explains this one
)

// The marks written before a sentence is spoken. A process killed in mid-sentence leaves one behind.
const (
	ResultBegun = "begun"
	ResultAgain = "begun again"
)

// maxDeliveries bounds the list; one notice has far fewer entries.
const maxDeliveries = 24

// deliver adds a delivery. A repeated failure replaces the earlier entry, so that days of failures do not grow the
// file. settled means that the notice needs no further attempt. See docs/decisions.md, "The ladder counts from the first proven notice".
func deliver(i Incident, d Delivery, settled bool) Incident {
	list := slices.DeleteFunc(slices.Clone(i.Deliveries), func(old Delivery) bool {
		same := old.Channel == d.Channel && old.Rev == d.Rev
		return same && (!d.OK && !old.OK && old.Result == d.Result || old.begun())
	})
	i.Deliveries = trimmed(append(list, d))
	if settled && d.Rev == i.Notice {
		i.Notified = i.Notice
	}
	if d.OK && !d.Recovery && d.Result != ResultWithdrawn && d.Rev == i.Notice && i.Called.IsZero() {
		i.Called, i.Climbed = d.At.Add(-d.rung), d.rung
	}
	return i
}

// trimmed drops the oldest deliveries beyond maxDeliveries. It keeps those whose popup is on screen or may still
// appear, because that popup must be withdrawn later.
func trimmed(list []Delivery) []Delivery {
	for len(list) > maxDeliveries {
		up := Incident{Deliveries: list}.popupsToRemove()
		n := slices.IndexFunc(list, func(d Delivery) bool { return !slices.Contains(up, d) })
		list = slices.Delete(list, max(n, 0), max(n, 0)+1)
	}
	return list
}

// begun reports whether the outcome of the delivery is still unknown.
func (d Delivery) begun() bool { return d.Result == ResultBegun || d.Result == ResultAgain }

// hasResult reports whether the current notice has a delivery with that result.
func (i Incident) hasResult(result string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool { return d.Result == result && d.Rev == i.Notice })
}

// popupsShown lists the deliveries whose popups are still on a screen, as far as we know: per channel, the newest
// delivery that changed its screen.
func (i Incident) popupsShown() []Delivery { return i.popups(false) }

// popupsToRemove lists the deliveries whose popups are on a screen or may still appear. They must be withdrawn when the
// incident is over.
func (i Incident) popupsToRemove() []Delivery { return i.popups(true) }

func (i Incident) popups(orMayAppear bool) []Delivery {
	var up []Delivery
	seen := map[string]bool{}
	for _, d := range slices.Backward(i.Deliveries) {
		changed := d.OK || d.Result == ResultStuck || orMayAppear && d.Popup != ""
		if seen[d.Channel] || !changed {
			continue
		}
		seen[d.Channel] = true
		if d.Popup != "" {
			up = append(up, d)
		}
	}
	return up
}

// reached reports whether the channel has delivered the current notice.
func (i Incident) reached(channel string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool {
		return d.Channel == channel && d.OK && d.Rev == i.Notice && d.Result != ResultWithdrawn
	})
}

// showsPopup reports whether the popup with that key is still on a screen for the incident.
func (i Incident) showsPopup(popup string) bool {
	return slices.ContainsFunc(i.popupsShown(), func(d Delivery) bool { return d.Popup == popup })
}

// isNews reports whether d adds to the incident's deliveries: a successful delivery, or a new failure of a channel.
func (d Delivery) isNews(i Incident) bool {
	switch {
	case d.OK:
		return d.Result != ResultWithdrawn
	case d.Result != ResultFailed && d.Result != ResultTimeout:
		return false
	}
	return !slices.ContainsFunc(i.Deliveries, func(old Delivery) bool {
		return old.Channel == d.Channel && old.Rev == d.Rev && old.Result == d.Result
	})
}
