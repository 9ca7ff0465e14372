package escalate

import "testing"

func TestTitlesNameTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"cannot run /home/jesse/proj/scripts/START.sh: no such file": "cannot run START.sh: no such file",
		"“scripts/x.sh” failed (see ./logs/run)":                     "“x.sh” failed (see run)",
		`C:\work\proj\build.ps1 fails`:                               "build.ps1 fails",
		"and/or 401/403 at 3/4.5 of https://example.org/a/b.html":    "and/or 401/403 at 3/4.5 of https://example.org/a/b.html",
		"": "",
	} {
		if got := fileNames(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestNoticesNameTheProject: a popup stands beside those of other projects, and a voice reads no path.
func TestNoticesNameTheProject(t *testing.T) {
	i := Incident{Key: "k", Project: "shop", About: "shop:task/t-1", Summary: "Task /srv/shop/x.sh failed", Why: "done"}
	for name, c := range map[string]struct {
		n                  Notice
		headline, sentence string
	}{
		"told":       {noticeOf(i), "shop: Task x.sh failed", "Task x.sh failed. Project shop."},
		"over":       {recoveryOf(i), "shop: Over: Task x.sh failed", "Over: Task x.sh failed. Project shop."},
		"one letter": {noticeOf(Incident{Project: "p", Summary: "Task pay failed."}), "p: Task pay failed.", "Task pay failed. Project p."},
		"no project": {noticeOf(Incident{Summary: "steward is down"}), "steward is down", "steward is down"},
		"named":      {noticeOf(Incident{Project: "shop", Summary: "shop: has used its retries"}), "shop: has used its retries", "shop: has used its retries"},
	} {
		if c.n.Headline() != c.headline || c.n.Sentence() != c.sentence {
			t.Errorf("%s: %q, %q", name, c.n.Headline(), c.n.Sentence())
		}
	}
}

// TestCriticalIncidentsDiffer: five tasks that fail in the same way can be told apart.
func TestCriticalIncidentsDiffer(t *testing.T) {
	one, two := failedTask("build-1", "INVALID_REQUEST", "fatal", "m"), failedTask("build-2", "INVALID_REQUEST", "fatal", "m")
	first, _, _ := announce(t, one)
	second, _, _ := announce(t, two)
	if first == second || first != "Critical error: Invalid request. Your input needed. (build-1, x.sh:12)" {
		t.Errorf("%q, %q", first, second)
	}
}
