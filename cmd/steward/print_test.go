package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
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
		if got := clean(in); got != want {
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
		got := fit(clean(s), room)
		if cells(got) > room {
			t.Errorf("fit(%q, %d) takes %d cells", got, room, cells(got))
		}
		assertHarmless(t, got)
		if strings.ContainsAny(got, "\n\t") || clean(clean(s)) != clean(s) {
			t.Errorf("clean(%q) = %q is not one clean line", s, got)
		}
	})
}

// assertHarmless fails on anything but text and line ends.
func assertHarmless(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("%q holds %U", s, r)
			return
		}
	}
}

func TestOneWordIsBounded(t *testing.T) {
	if got := oneWord(strings.Repeat("long ", 1000)); cells(got) > maxWord || !strings.HasSuffix(got, "…") {
		t.Errorf("oneWord gives %d cells: %q", cells(got), got)
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
		if got := fit(c.in, c.room); got != c.want {
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
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	odd := "a'b\"c $HOME `id` \\ * ; ü"
	out, err := exec.CommandContext(t.Context(), sh, "-c", "printf %s "+shellQuote(odd)).Output()
	if err != nil || string(out) != odd {
		t.Errorf("a shell reads %q as %q (%v)", odd, out, err)
	}
}

func TestShort(t *testing.T) {
	for in, want := range map[time.Duration]string{
		-time.Second: "0 s", 900 * time.Millisecond: "0 s", 12 * time.Second: "12 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min",
		119 * time.Minute: "119 min", 2 * time.Hour: "2 h", 47 * time.Hour: "47 h", 72 * time.Hour: "3 d",
	} {
		if got := short(in); got != want {
			t.Errorf("short(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestPrintKeepsWhatTheDaemonSaid(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, output: "json"}
	if err := a.print(json.RawMessage("{\"z\":\"> 0.95 \u009b\x7f\",\"a\":[],\"n\":null}")); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"z\": \"> 0.95 \\u009b\\u007f\",\n  \"a\": [],\n  \"n\": null\n}\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestPrintDone(t *testing.T) {
	at := time.Date(2025, 10, 22, 21, 30, 0, 0, time.UTC)
	p := &supervisor.State{Done: []supervisor.Done{{At: at, Verb: "release", Subject: "sot:task/1", Why: "due\x1b[2J"}}}
	p.Projects = []supervisor.ProjectStatus{{Name: "sot", Path: "/sot", Problem: &protocol.Fault{Path: "/sot", Problem: "it does not answer"}}}
	for _, c := range []struct {
		output  string
		picture *supervisor.State
		want    string
	}{
		{"text", p, "cannot use /sot: it does not answer\nrelease sot:task/1: due?[2J\n"},
		{"text", nil, "nothing to do\n"},
		{"json", nil, "{\n  \"done\": [],\n  \"faults\": [],\n  \"findings\": []\n}\n"},
	} {
		var out bytes.Buffer
		if err := (&app{out: &out, output: c.output}).printDone(c.picture); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("printDone as %s gives %q, want %q", c.output, out.String(), c.want)
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	if (&app{out: &bytes.Buffer{}}).isColored() {
		t.Error("a buffer is no terminal")
	}
	p := &page{width: 80, color: true}
	p.table("", nil, []cell{word("dead"), text("plain")})
	if got, want := p.String(), "\x1b[31mdead\x1b[0m  plain\n"; got != want {
		t.Errorf("coloured row %q, want %q", got, want)
	}
}
