package steward_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/livhana/steward/config"
)

// TestReadme holds the README to the program: every command it shows exists and is listed, its configuration example
// is accepted, and every link leads somewhere.
func TestReadme(t *testing.T) {
	readme := text(t, "README.md")
	commands := readme + text(t, "docs/commands.md")
	program := filepath.Join(t.TempDir(), "steward")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/steward").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	help, err := exec.Command(program, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`).FindAllStringSubmatch(string(help), -1) {
		if verb := m[1]; verb != "help" && !strings.Contains(commands, verb) {
			t.Errorf("README.md and docs/commands.md do not mention `steward %s`", verb)
		}
	}
	for _, m := range regexp.MustCompile("`steward ([a-z]+)").FindAllStringSubmatch(commands, -1) {
		if out, err := exec.Command(program, m[1], "--help").CombinedOutput(); err != nil {
			t.Errorf("the documents show `steward %s`, which does not exist: %s", m[1], out)
		}
	}
	for _, m := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		if _, err := config.Parse("README.md", []byte(m[1])); err != nil {
			t.Errorf("the README's example is refused: %v", err)
		}
	}
}

// TestLinks: every link between the documents leads somewhere.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	more, _ := filepath.Glob("docs/protocols/*.md")
	for _, page := range append(append(pages, more...), "README.md", "CHANGELOG.md", "CONTRIBUTING.md") {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(text(t, page), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: link %s leads nowhere", page, m[1])
			}
		}
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
