package steward_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/livhana/steward"
)

// TestReadme holds the README to the program: every command it shows exists and is listed, its configuration example
// is accepted, and every link leads somewhere.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	program := filepath.Join(t.TempDir(), "steward")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/steward").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	help, err := exec.Command(program, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`).FindAllStringSubmatch(string(help), -1) {
		if verb := m[1]; verb != "help" && !strings.Contains(readme, verb) {
			t.Errorf("the README does not tell of `steward %s`", verb)
		}
	}
	for _, m := range regexp.MustCompile("`steward ([a-z]+)").FindAllStringSubmatch(readme, -1) {
		if out, err := exec.Command(program, m[1], "--help").CombinedOutput(); err != nil {
			t.Errorf("the README shows `steward %s`, which does not exist: %s", m[1], out)
		}
	}
	for _, m := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		if _, err := steward.Parse("README.md", []byte(m[1])); err != nil {
			t.Errorf("the README's example is refused: %v", err)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(readme, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("link %s leads nowhere", m[1])
		}
	}
}
