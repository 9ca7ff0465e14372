package escalate

import (
	"slices"
	"time"
)

// Delivery is one attempt to reach the human, with its proof.
type Delivery struct {
	Channel string `json:"channel"`
	// Result is the channel's own word on success ("shown", "spoken"), else one of ours (Result*).
	Result string    `json:"result"`
	At     time.Time `json:"at"`
	OK     bool      `json:"ok"`
	Error  string    `json:"error,omitempty"`
	// Rev is the Notice that was carried.
	Rev int `json:"rev"`
	// Popup is the key of what stands on the screen since, or may come up yet if it is not OK; a summary of many has its own.
	Popup string `json:"popup,omitempty"`
	// Recovery: what was carried is the news that the incident is over.
	Recovery bool `json:"recovery,omitempty"`

	rung time.Duration // where the first rung stands, for the first delivery
}

// The results that are not a channel's own words.
const (
	ResultDelivered = "delivered" // success, for a channel that has no word for it
	ResultFailed    = "failed"
	ResultTimeout   = "timeout"
	ResultDropped   = "dropped"   // too old to be spoken; the popup stands
	ResultWithdrawn = "withdrawn" // its popup was taken away
	ResultStuck     = "stuck"     // its popup could not be taken away
	ResultUnwanted  = "unwanted"  // no configured channel is for such a notice
	ResultQuiet     = "quiet"     // it waits for the end of the quiet hours
	ResultInhibited = "inhibited" // it waits, because another incident explains it
)

// The marks written before a sentence is spoken: a run that is killed in the middle of it leaves one behind.
const (
	ResultBegun = "begun"
	ResultAgain = "begun again"
)

// maxDeliveries bounds the list; the entries of one notice are far fewer.
const maxDeliveries = 24

// deliver adds a delivery. The same failure again replaces the earlier one, so that days of failing do not
// make a long file. Settled: the notice needs no further attempt.
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

// trimmed drops the oldest deliveries of too many, but none whose popup stands: it must be known to be taken away.
func trimmed(list []Delivery) []Delivery {
	for len(list) > maxDeliveries {
		up := Incident{Deliveries: list}.lingering()
		n := slices.IndexFunc(list, func(d Delivery) bool { return !slices.Contains(up, d) })
		list = slices.Delete(list, max(n, 0), max(n, 0)+1)
	}
	return list
}

// begun marks a delivery of which nobody knows yet what becomes of it.
func (d Delivery) begun() bool { return d.Result == ResultBegun || d.Result == ResultAgain }

// waits reports whether the current notice was put off with that result.
func (i Incident) waits(result string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool { return d.Result == result && d.Rev == i.Notice })
}

// standing lists the deliveries whose popups are still on a screen, as far as we know: the newest of each channel
// that changed its screen.
func (i Incident) standing() []Delivery {
	var up []Delivery
	seen := map[string]bool{}
	for _, d := range slices.Backward(i.Deliveries) {
		if seen[d.Channel] || !d.OK && d.Result != ResultStuck {
			continue
		}
		seen[d.Channel] = true
		if d.Popup != "" {
			up = append(up, d)
		}
	}
	return up
}

// lingering lists the deliveries whose popups stand, or may come up yet: those are to be taken away when it is over.
func (i Incident) lingering() []Delivery {
	var up []Delivery
	seen := map[string]bool{}
	for _, d := range slices.Backward(i.Deliveries) {
		if seen[d.Channel] || !d.OK && d.Result != ResultStuck && d.Popup == "" {
			continue
		}
		seen[d.Channel] = true
		if d.Popup != "" {
			up = append(up, d)
		}
	}
	return up
}

// reached reports whether the channel has carried the current notice.
func (i Incident) reached(channel string) bool {
	return slices.ContainsFunc(i.Deliveries, func(d Delivery) bool {
		return d.Channel == channel && d.OK && d.Rev == i.Notice && d.Result != ResultWithdrawn
	})
}

// stands reports whether a popup of that key still stands for the incident.
func (i Incident) stands(popup string) bool {
	return slices.ContainsFunc(i.standing(), func(d Delivery) bool { return d.Popup == popup })
}

// isNews reports whether d tells more than the incident's deliveries do: the notice went out, or a channel failed anew.
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
