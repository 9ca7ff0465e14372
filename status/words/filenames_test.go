package words

import "testing"

func TestTitlesNameTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"cannot run /home/jesse/proj/scripts/START.sh: no such file": "cannot run START.sh: no such file",
		"“scripts/x.sh” failed (see ./logs/run)":                     "“x.sh” failed (see run)",
		`C:\work\proj\build.ps1 fails`:                               "build.ps1 fails",
		"and/or 401/403 at 3/4.5 of https://example.org/a/b.html":    "and/or 401/403 at 3/4.5 of https://example.org/a/b.html",
		"": "",
	} {
		if got := FileNames(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestCriticalIncidentsDiffer checks that five tasks with the same failure can be told apart.
func TestCriticalIncidentsDiffer(t *testing.T) {
	one, two := failedTask("build-1", "INVALID_REQUEST", "fatal", "m"), failedTask("build-2", "INVALID_REQUEST", "fatal", "m")
	first, _, _ := announce(t, one)
	second, _, _ := announce(t, two)
	if first == second || first != "Critical error: Invalid request. Your input needed. (build-1, x.sh:12)" {
		t.Errorf("%q, %q", first, second)
	}
}
