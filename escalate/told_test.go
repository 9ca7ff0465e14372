package escalate

import "testing"

// TestDeliveriesThatAreNews checks that a success is reported, and a repeated failure once.
func TestDeliveriesThatAreNews(t *testing.T) {
	failed := Delivery{Channel: ChannelSpeech, Result: ResultFailed, Rev: 1, Error: "no loudspeaker"}
	before := Incident{Deliveries: []Delivery{failed}}
	next := failed
	next.Rev = 2
	for name, c := range map[string]struct {
		d    Delivery
		i    Incident
		want bool
	}{
		"shown":               {Delivery{Channel: ChannelDesktop, Result: "shown", OK: true, Rev: 1}, before, true},
		"withdrawn":           {Delivery{Channel: ChannelDesktop, Result: ResultWithdrawn, OK: true, Rev: 1}, before, false},
		"failed":              {failed, Incident{}, true},
		"failed again":        {failed, before, false},
		"a newer notice":      {next, before, true},
		"about to be spoken":  {Delivery{Channel: ChannelSpeech, Result: ResultBegun, Rev: 1}, before, false},
		"too old to be told":  {Delivery{Channel: ChannelSpeech, Result: ResultDropped, Rev: 1}, before, false},
		"another way to fail": {Delivery{Channel: ChannelSpeech, Result: ResultTimeout, Rev: 1}, before, true},
	} {
		if got := c.d.isNews(c.i); got != c.want {
			t.Errorf("%s: news %v, want %v", name, got, c.want)
		}
	}
}
