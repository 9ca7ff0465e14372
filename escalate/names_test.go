package escalate

import "testing"

// TestNoticesNameTheProject checks that a popup names its project and a voice reads no path.
func TestNoticesNameTheProject(t *testing.T) {
	i := Incident{Key: "k", Content: Content{Project: "shop", About: "shop:task/t-1", Summary: "Task /srv/shop/x.sh failed"}, Closing: Closing{Why: "done"}}
	for name, c := range map[string]struct {
		n                  Notice
		headline, sentence string
	}{
		"told":       {noticeOf(i), "shop: Task x.sh failed", "Task x.sh failed. Project shop."},
		"over":       {recoveryOf(i), "shop: Over: Task x.sh failed", "Over: Task x.sh failed. Project shop."},
		"one letter": {noticeOf(Incident{Content: Content{Project: "p", Summary: "Task pay failed."}}), "p: Task pay failed.", "Task pay failed. Project p."},
		"no project": {noticeOf(Incident{Content: Content{Summary: "steward is down"}}), "steward is down", "steward is down"},
		"named":      {noticeOf(Incident{Content: Content{Project: "shop", Summary: "shop: has used its retries"}}), "shop: has used its retries", "shop: has used its retries"},
	} {
		if c.n.Headline() != c.headline || c.n.Sentence() != c.sentence {
			t.Errorf("%s: %q, %q", name, c.n.Headline(), c.n.Sentence())
		}
	}
}
