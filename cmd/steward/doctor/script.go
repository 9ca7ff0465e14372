package doctor

import (
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
)

// The boot scripts that protocol 000 names, and the part of the first that packaging/boot provides.
const (
	claudeScript = "claude_tier1_boot.sh"
	codexScript  = "codex_agent_boot.sh"
	step35       = "claude_tier1_step3.5.sh"
)

// maxScript bounds how much of a script is read.
const maxScript = 1 << 20

// readScript opens regular files only: opening a pipe would wait for its writer.
func readScript(path string) (string, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	return string(text), err == nil
}

var (
	// stewardBoot matches the command, named directly or through a variable.
	stewardBoot = lazily(`(\bsteward["']?|\$\{?[A-Za-z_]+\}?["']?)\s+boot\s+["']?(livhana-layer1\.1|codex-cursor|\$)`)
	sourced     = lazily(`(^|[;&|\s])(\.|source|bash)\s+[^\n]*claude_tier1_step3\.5\.sh`)
)

// judgeScript says whether a boot script leaves the setup to steward. ready: the part for Step 3.5 is there.
func judgeScript(project, script, text string, ready bool) Finding {
	code := withoutComments(text)
	name := project + " " + script
	agent, line := "codex-cursor", `steward boot codex-cursor --project "$ROOT"`
	if script == claudeScript {
		agent, line = "livhana-layer1.1", `steward boot livhana-layer1.1 --project "$ROOT"`
	}
	do := "put this in the place of its set-up: " + line
	switch {
	case script == claudeScript && sourced().MatchString(code) && !ready:
		return warning(name, "put "+step35+" beside it (it comes with steward, packaging/boot), or write: "+line, "it calls %s, which is not there", step35)
	case stewardBoot().MatchString(code), script == claudeScript && sourced().MatchString(code):
		return working(name, "it leaves the set-up to steward")
	case strings.Contains(code, "agent_registry.json"):
		return warning(name, do, "it sets %s up itself, instead of leaving that to steward, which merges with what is there", agent)
	}
	return warning(name, do, "it does not boot %s", agent)
}

// withoutComments drops the lines that contain only a comment.
func withoutComments(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			code.WriteString(line)
		}
	}
	return code.String()
}

// lazily compiles an expression on first use; otherwise every command would pay for it at its start.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
