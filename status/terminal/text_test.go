package terminal_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/status/terminal"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                             "plain",
		"two\nlines\r\nand\ta tab":          "two lines and a tab",
		"\x1b[31mred\x1b[0m":                "?[31mred?[0m",
		"\x1b]0;title\x07":                  "?]0;title?",
		"c1 \u009b31m":                      "c1 ?31m",
		"rtl \u202eevil\u202c":              "rtl evil",
		"zero\u200bwidth \U000e0041tag":     "zerowidth tag",
		"bad \xff\xfe utf8":                 "bad ?? utf8",
		"  outer   blanks  ":                "outer blanks",
		"日本語 ünïcode ✅":                     "日本語 ünïcode ✅",
		"{\"pid\":12,\"since\":\"2025\"}\n": "{\"pid\":12,\"since\":\"2025\"}",
	} {
		if got := terminal.Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[2J", "\u202e\u009b", "e\u0301", "\xff", "日本"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, room int) {
		room = 1 + max(room, -room)%500
		got := terminal.Fit(terminal.Clean(s), room)
		if terminal.Cells(got) > room {
			t.Errorf("fit(%q, %d) takes %d cells", got, room, terminal.Cells(got))
		}
		if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) || !utf8.ValidString(got) {
			t.Errorf("clean(%q) = %q", s, got)
		}
		if strings.ContainsAny(got, "\n\t") || terminal.Clean(terminal.Clean(s)) != terminal.Clean(s) {
			t.Errorf("clean(%q) = %q is not one clean line", s, got)
		}
	})
}

func TestOneWordIsBounded(t *testing.T) {
	if got := terminal.OneWord(strings.Repeat("long ", 1000)); terminal.Cells(got) > terminal.MaxWord || !strings.HasSuffix(got, "…") {
		t.Errorf("oneWord gives %d cells: %q", terminal.Cells(got), got)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in   string
		room int
		want string
	}{
		{"fits", 4, "fits"},
		{"does not", 4, "doe…"},
		{"cut at blank", 5, "cut…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"anything", 1, "…"},
	} {
		if got := terminal.Fit(c.in, c.room); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.room, got, c.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/home/jesse/LivHana-SoT": "/home/jesse/LivHana-SoT",
		"":                        "''",
		"two words":               "'two words'",
		"it's":                    `'it'\''s'`,
		"$(reboot)":               "'$(reboot)'",
		"~/x":                     "'~/x'",
	} {
		if got := terminal.ShellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	odd := "a'b\"c $HOME `id` \\ * ; ü"
	out, err := exec.CommandContext(t.Context(), sh, "-c", "printf %s "+terminal.ShellQuote(odd)).Output()
	if err != nil || string(out) != odd {
		t.Errorf("a shell reads %q as %q (%v)", odd, out, err)
	}
}

func TestShort(t *testing.T) {
	for in, want := range map[time.Duration]string{
		-time.Second: "0 s", 900 * time.Millisecond: "0 s", 12 * time.Second: "12 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min",
		119 * time.Minute: "119 min", 2 * time.Hour: "2 h", 47 * time.Hour: "47 h", 72 * time.Hour: "3 d",
	} {
		if got := terminal.Short(in); got != want {
			t.Errorf("short(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestFitNeverOverflows(t *testing.T) {
	for _, s := range []string{"", "abc", strings.Repeat("x", 50), strings.Repeat("漢", 30), "e\u0301e\u0301e\u0301"} {
		for width := 1; width < 60; width++ {
			got := terminal.Fit(s, width)
			wide := strings.Count(got, "漢") + utf8.RuneCountInString(got) - strings.Count(got, "\u0301")
			if wide > width || !utf8.ValidString(got) {
				t.Errorf("Fit(%q, %d) = %q takes %d cells", s, width, got, wide)
			}
		}
	}
}
