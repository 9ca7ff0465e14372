package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConflicts(t *testing.T) {
	for text, file := range map[string]string{
		"Auto-merging a b.txt\nCONFLICT (content): Merge conflict in a b.txt\nAutomatic merge failed; fix conflicts and then commit the result.": "a b.txt",
		"CONFLICT (modify/delete): src/x.go deleted in HEAD and modified in topic.  Version topic of src/x.go left in tree.":                     "src/x.go",
		"CONFLICT (add/add): Merge conflict in n.txt":                                                                                     "n.txt",
		"error: could not apply 1a2b3c4... change\nhint: Resolve all conflicts manually":                                                  "",
		"Automatic merge failed; fix conflicts and then commit the result.":                                                               "",
		"a.txt: needs merge\nerror: you need to resolve your current index first":                                                         "a.txt",
		"error: Pulling is not possible because you have unmerged files.\nhint: Fix them up in the work tree":                             "",
		"U\ta.txt\nerror: Committing is not possible because you have unmerged files.\nfatal: Exiting because of an unresolved conflict.": "",
	} {
		if c, ok := conflict(text); !ok || c.file != file || c.words == "" {
			t.Errorf("%q: got %+v, %v, want %q", text, c, ok, file)
		}
	}
	for _, text := range []string{"no conflict here", "FAIL TestMergeConflict", "see CONFLICT (content) in the manual", ""} {
		if c, ok := conflict(text); ok {
			t.Errorf("%q: taken for a conflict: %+v", text, c)
		}
	}
}

func TestRateLimits(t *testing.T) {
	for text, keep := range map[string]string{
		"Error: 429 Too Many Requests\nretry after 120 seconds":                                            "retry after 120 seconds",
		"Claude AI usage limit reached|1761168600":                                                         "1761168600",
		"You've hit your usage limit. Try again in 3 hours 20 minutes.":                                    "3 hours",
		"You've hit your session limit · resets 3pm (Europe/Berlin)":                                       "resets 3pm",
		"API Error: {\"type\":\"rate_limit_error\",\"message\":\"x\"}":                                     "rate_limit_error",
		"5-hour limit reached ∙ resets 11am":                                                               "resets 11am",
		"status: 429\n":                                                                                    "429",
		"Quota exceeded for quota metric 'Requests'\n  details\n  Please retry in 42.5s":                   "retry in 42.5s",
		"request failed with status code 429":                                                              "429",
		"error: rate limit exceeded":                                                                       "rate limit exceeded",
		"{\"x\":\"" + strings.Repeat("y", 5000) + "\",\"error\":\"usage limit reached, resets at 15:00\"}": "resets at 15:00",
	} {
		if got := limited(text); !strings.Contains(got, keep) || len(got) > longestMessage {
			t.Errorf("%q: got %q", text, got)
		}
	}
	for _, text := range []string{"--- FAIL: TestRateLimit (0.00s)", "rate_limit.go:42: unexpected", "ok 429 tests", "limits are fine", "line 429: syntax error"} {
		if got := limited(text); got != "" {
			t.Errorf("%q: taken for a rate limit", text)
		}
	}
}

func TestPlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"src/app.py", "src/lib.py", "a.ts", "main.go", "run.sh", "node_modules/m/index.js", "site-packages/x.py", "w.rs"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := finder{dirs: []string{dir}, owns: allow(dir, nil).allows}
	for _, c := range []struct {
		text, file string
		line       int
	}{
		{"./run.sh: line 12: foo: command not found", "run.sh", 12},
		{"run.sh: 3: foo: not found", "run.sh", 3},
		{"# pkg\n./main.go:7:2: undefined: x\n./a.ts:9:1: later", "main.go", 7},
		{"a.ts(12,5): error TS2304: Cannot find name 'x'.", "a.ts", 12},
		{"error[E0425]: x\n  --> w.rs:4:5", "w.rs", 4},
		{"Traceback (most recent call last):\n  File \"" + dir + "/src/app.py\", line 3, in <module>\n    f()\n  File \"" + dir + "/src/lib.py\", line 8, in f\n    g()\n  File \"/usr/lib/python3/json.py\", line 1, in g\nValueError: x", "src/lib.py", 8},
		{"  File \"src/app.py\", line 5\n  File \"" + dir + "/site-packages/x.py\", line 9", "src/app.py", 5},
		{"Error: boom\n    at Object.<anonymous> (" + dir + "/node_modules/m/index.js:1:7)\n    at go (" + dir + "/a.ts:10:5)\n    at " + dir + "/main.go:2:1", "a.ts", 10},
		{"panic: x\n\ngoroutine 1 [running]:\nmain.main()\n\t" + dir + "/main.go:12 +0x1d", "main.go", 12},
		{"missing.go:3:1: gone", "", 0},
		{"/etc/passwd:1: outside", "", 0},
		{"http://localhost:8080 refused", "", 0},
		{"12:30:45 all is well", "", 0},
		{"", "", 0},
	} {
		want := ""
		if c.file != "" {
			want = filepath.Join(dir, c.file)
		}
		if file, at, ok := f.inOutput(c.text); file != want || at != c.line || ok != (c.file != "") {
			t.Errorf("%q: got %s:%d %v, want %s:%d", c.text, file, at, ok, c.file, c.line)
		}
	}
}
