package agents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/livhana/steward/test/agents"
	"github.com/livhana/steward/test/model"
)

// Both programs run one shell command that the model asks for, and print the model's last words.
func TestAgentsWork(t *testing.T) {
	programs := agents.Install(t)
	server := model.Start(t, model.Rule{When: regexp.MustCompile(`write the word (\w+)`), Steps: []model.Step{{Shell: "echo $1 >written"}}, Say: "wrote $1"})
	for name, argv := range map[string][]string{
		"claude": {programs.Claude, "-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash", "--", "write the word apple"},
		"codex":  {programs.Codex, "exec", "--skip-git-repo-check", "write the word apple"},
	} {
		t.Run(name, func(t *testing.T) {
			home, err := os.MkdirTemp(cacheDir(t), "home-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(home) })
			dir := filepath.Join(home, "project")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(argv[0], argv[1:]...)
			c.Dir, c.Env = dir, append(os.Environ(), agents.Home(t, home, server.URL(), dir)...)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), "wrote apple") {
				t.Errorf("it did not print the model's last words:\n%s", out)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "written")); err != nil || string(data) != "apple\n" {
				t.Errorf("the command did not run: %q, %v\n%s", data, err, out)
			}
		})
	}
}

// cacheDir is a folder outside of the temporary folder, where Codex refuses helper programs.
func cacheDir(t *testing.T) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
