package steward_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	decisionTitle = regexp.MustCompile(`(?m)^\*\*(.+?)\*\*`)
	decisionNamed = regexp.MustCompile(`See docs/decisions\.md, "(.+)"\.`)
)

// TestDecisionsAreNamed keeps the promise of docs/decisions.md: the code that a paragraph explains names its title, and the
// code names no title that is not there.
func TestDecisionsAreNamed(t *testing.T) {
	text, err := os.ReadFile("docs/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range decisionTitle.FindAllStringSubmatch(string(text), -1) {
		title := strings.TrimRight(strings.ReplaceAll(m[1], "`", ""), ".,")
		if _, twice := named[title]; twice {
			t.Errorf("docs/decisions.md has the title %q twice", title)
		}
		named[title] = false
	}
	if len(named) < 50 {
		t.Fatalf("docs/decisions.md has only %d titles: is a paragraph's title still bold?", len(named))
	}
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git cannot list the tracked files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if !mayNameDecisions(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, m := range decisionNamed.FindAllStringSubmatch(string(text), -1) {
			if _, ok := named[m[1]]; !ok {
				t.Errorf("%s names the decision %q, which docs/decisions.md does not have", name, m[1])
			}
			named[m[1]] = true
		}
	}
	for title, found := range named {
		if !found {
			t.Errorf("no code names the decision %q: add `See docs/decisions.md, \"%s\".` to the comment there", title, title)
		}
	}
}

func mayNameDecisions(name string) bool {
	kinds := []string{".go", ".sh", ".toml", ".yml", ".tmpl"}
	return name != "decisions_test.go" && !strings.HasPrefix(name, "docs/") && (path.Base(name) == "Makefile" || slices.Contains(kinds, path.Ext(name)))
}
