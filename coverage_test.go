package steward_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	coverageTest   = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	coverageScript = regexp.MustCompile("`([\\w-]+/[\\w-]+\\.txtar)`")
	testFunc       = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// TestCoverageNamesTests holds docs/protocols/coverage.md to its promise: each row names a test that exists, or says why
// the requirement is absent.
func TestCoverageNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/protocols/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git cannot list the tracked files: %v", err)
	}
	tests, scripts := map[string]bool{}, ""
	for name := range strings.SplitSeq(string(list), "\x00") {
		switch {
		case strings.HasSuffix(name, ".txtar"):
			scripts += "/" + strings.ReplaceAll(name, "testdata/", "") + "\n"
		case strings.HasSuffix(name, "_test.go"):
			code, _ := os.ReadFile(name) // removed, and not committed yet
			for _, m := range testFunc.FindAllStringSubmatch(string(code), -1) {
				tests[m[1]] = true
			}
		}
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 || cells[0] == "| requirement" {
			continue
		}
		rows++
		named := coverageTest.FindAllStringSubmatch(cells[2], -1)
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("%s: no test file has %s", cells[0], m[1])
			}
		}
		files := coverageScript.FindAllStringSubmatch(cells[2], -1)
		for _, m := range files {
			if !strings.Contains(scripts, "/"+m[1]+"\n") {
				t.Errorf("%s: no script is called %s", cells[0], m[1])
			}
		}
		if len(named)+len(files) == 0 && !strings.HasPrefix(cells[2], "absent, because ") {
			t.Errorf("%s: names no test, and no reason why it is absent", cells[0])
		}
	}
	if rows < 80 {
		t.Errorf("only %d rows were read: is a row still on one line?", rows)
	}
}
