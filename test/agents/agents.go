// Package agents gets the real coding agents from npm for tests, and prepares a home in which they talk to a model server
// of the tests instead of their vendors.
package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// The tested versions.
const (
	ClaudeVersion = "2.1.330"
	CodexVersion  = "0.169.0"
)

// packages are the npm packages with the programs' native binaries. They need no Node and run no install script.
var packages = []string{
	"@anthropic-ai/claude-code-linux-x64@" + ClaudeVersion,
	"@openai/codex-linux-x64@npm:@openai/codex@" + CodexVersion + "-linux-x64",
}

// Programs are the installed programs.
type Programs struct{ Claude, Codex string }

// install installs the programs once per machine, in the user's cache folder.
var install = sync.OnceValues(func() (Programs, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Programs{}, err
	}
	dir := filepath.Join(cache, "steward-test", "agents-"+ClaudeVersion+"-"+CodexVersion)
	modules := filepath.Join(dir, "node_modules")
	a := Programs{Claude: filepath.Join(modules, "@anthropic-ai/claude-code-linux-x64/claude"),
		Codex: filepath.Join(modules, "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")}
	if a.present() {
		return a, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return a, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return a, err
	}
	defer unlock()
	if a.present() {
		return a, nil // another test process has installed them meanwhile
	}
	out, err := exec.Command("npm", append([]string{"install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund"}, packages...)...).CombinedOutput()
	if err != nil {
		return a, fmt.Errorf("npm install: %w: %s", err, firstLine(string(out)))
	}
	if !a.present() {
		return a, fmt.Errorf("npm has installed the packages, but not %s and %s", a.Claude, a.Codex)
	}
	return a, nil
})

func (a Programs) present() bool {
	for _, program := range []string{a.Claude, a.Codex} {
		if st, err := os.Stat(program); err != nil || !st.Mode().IsRegular() {
			return false
		}
	}
	return true
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// Install returns the programs. It skips the test where they cannot be installed.
func Install(t testing.TB) Programs {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip("the real coding agents run in the long form only")
	case runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		t.Skip("the real coding agents are tested on Linux on amd64 only")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed, so the real coding agents are not tested")
	}
	a, err := install()
	if err != nil {
		t.Skipf("the real coding agents cannot be installed: %v", err)
	}
	return a
}

// Home prepares the programs' configuration in a home folder: the model server at url, a dummy key, the projects trusted.
// It returns the environment of the programs.
func Home(t testing.TB, home, url string, projects ...string) []string {
	t.Helper()
	trusted := map[string]any{}
	codex := "model = \"gpt-5.5\"\nmodel_provider = \"stub\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\n" +
		"[model_providers.stub]\nname = \"stub\"\nbase_url = \"" + url + "/v1\"\nenv_key = \"STUB_KEY\"\nwire_api = \"responses\"\n"
	for _, dir := range projects {
		trusted[dir] = map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}
		codex += fmt.Sprintf("\n[projects.%q]\ntrust_level = \"trusted\"\n", dir)
	}
	claude, err := json.Marshal(map[string]any{"hasCompletedOnboarding": true, "theme": "dark",
		"customApiKeyResponses": map[string]any{"approved": []string{"dummy"}, "rejected": []string{}}, "projects": trusted})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(home, ".claude.json"), string(claude))
	put(t, filepath.Join(home, ".codex", "config.toml"), codex)
	return []string{"HOME=" + home, "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1", "STUB_KEY=dummy", "CODEX_HOME=" + filepath.Join(home, ".codex")}
}

func put(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
