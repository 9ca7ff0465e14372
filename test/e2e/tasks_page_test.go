package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/config"
)

// TestTasksPage runs what docs/tasks.md shows, in one shell and a folder of its own, and compares the output: ids, times
// and the folder may be others, "…" stands for anything.
func TestTasksPage(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it runs the whole program")
	}
	data, err := os.ReadFile("../../docs/tasks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		if _, err := config.Parse("docs/tasks.md", []byte(m[1])); err != nil {
			t.Errorf("the page's example is refused: %v", err)
		}
	}
	shown := pageCommands(string(data))
	if len(shown) < 15 {
		t.Fatalf("the page shows %d commands", len(shown))
	}
	outputs := runPage(t, shown)
	for i, c := range shown {
		if i >= len(outputs) {
			t.Fatalf("the shell ended before: %s", c.line)
		}
		if !pagePattern(c.output).MatchString(outputs[i]) {
			t.Errorf("$ %s\nprints\n%s\nand the page shows\n%s", c.line, outputs[i], c.output)
		}
	}
}

type pageCommand struct{ line, output string }

func pageCommands(page string) (all []pageCommand) {
	for _, m := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for text := range strings.Lines(m[1]) {
			if line, ok := strings.CutPrefix(text, "$ "); ok {
				all = append(all, pageCommand{line: strings.TrimSpace(line)})
				continue
			}
			all[len(all)-1].output += text
		}
	}
	return all
}

const pageID = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

// pagePattern is what an output must look like to be the one that the page shows.
func pagePattern(shown string) *regexp.Regexp {
	text := regexp.QuoteMeta(shown)
	text = strings.ReplaceAll(text, regexp.QuoteMeta("/tmp/jesse/shop"), `/\S*/shop`)
	text = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllLiteralString(text, pageID)
	text = regexp.MustCompile(`after \d+ s`).ReplaceAllLiteralString(text, `after [0-9 mins]+`)
	text = regexp.MustCompile(`in \d+\\\.\d+ s`).ReplaceAllLiteralString(text, `in [0-9.]+ s`)
	text = regexp.MustCompile(` {2,}`).ReplaceAllLiteralString(text, ` {2,}`)
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\n…\n", "\n(?:.*\n)*?"), "…", ".*")
	return regexp.MustCompile("^" + text + "$")
}

// runPage gives what each command printed, both streams together.
func runPage(t *testing.T, shown []pageCommand) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "st") // not t.TempDir: a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	shop := filepath.Join(dir, "shop")
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("config.toml", "[human]\nname = \"Ann\"\n[supervisor]\nlook_every = \"200ms\"\n[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[tasks]\njudge = \"30s\"\n")
	put("shop/scripts/check.sh", "#!/bin/sh\necho \"checking $1\"\necho good > report.txt\n")
	put("shop/scripts/deploy.sh", "#!/bin/sh\necho 'no such host' >&2\nexit 3\n")
	const mark = "-- next --"
	script := "trap 'kill $(jobs -p); wait' EXIT\n"
	for _, c := range shown {
		script += c.line + "\n"
		if strings.Contains(c.line, "steward run") {
			script += "until steward status >/dev/null 2>&1; do sleep 0.1; done\n"
		}
		script += "echo '" + mark + "'\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Cancel = func() error { return shell.Process.Signal(os.Interrupt) }
	shell.WaitDelay = 10 * time.Second
	shell.Dir = shop
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "STEWARD_STATE_DIR=" + filepath.Join(dir, "state"),
		"STEWARD_SOCKET=" + filepath.Join(dir, "s.sock"), "STEWARD_CONFIG=" + filepath.Join(dir, "config.toml")}
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	if err := shell.Run(); err != nil {
		out.WriteString(fmt.Sprintf("(the shell: %v)\n", err))
	}
	parts := strings.Split(out.String(), mark+"\n")
	return parts[:len(parts)-1]
}
