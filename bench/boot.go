package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The document's own two scripts (protocol 000, Boot Integration).
var (
	//go:embed scripts/step35.sh
	step35 string
	//go:embed scripts/codex_agent_boot.sh
	codexBoot string
)

// measureBoot sets up both agents in fresh projects, by the scripts and by steward, in turns.
func measureBoot(b *bench) ([]row, error) {
	const n, figure, target = 15, "steward boot, both agents, against the two scripts", "≥ 5 × faster"
	path, err := realPython()
	if err != nil {
		return []row{absent(figure, target, "not measured: "+err.Error())}, nil
	}
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	var scripts, ours sample
	for i := range n {
		took, err := h.bootByScripts(fmt.Sprintf("a%d", i), path)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, took)
		p, err := h.addProject(fmt.Sprintf("b%d", i))
		if err != nil {
			return nil, err
		}
		began := time.Now()
		for _, agent := range []string{"livhana-layer1.1", "codex-cursor"} {
			if err := h.boot(p, agent); err != nil {
				return nil, err
			}
		}
		ours = append(ours, time.Since(began))
	}
	ratio := float64(scripts.p50()) / float64(ours.p50())
	return []row{
		judged(figure, target, fmt.Sprintf("%.1f × (p50 %s against %s, n=%d)", ratio, show(ours.p50()), show(scripts.p50()), n), ratio >= 5),
	}, nil
}

func (h *house) bootByScripts(name, path string) (time.Duration, error) {
	dir := filepath.Join(h.path(name), "scripts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	files := []string{filepath.Join(dir, "claude_tier1_boot.sh"), filepath.Join(dir, "codex_agent_boot.sh")}
	for i, text := range []string{step35, codexBoot} {
		if err := os.WriteFile(files[i], []byte(text), 0o755); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for _, file := range files {
		cmd := exec.Command("bash", file)
		cmd.Env = append(h.environ(), "PATH="+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w: %s", filepath.Base(file), err, out)
		}
	}
	return time.Since(began), nil
}

// realPython gives a PATH on which python3 is the interpreter itself: a version manager's shim in front of it would
// make the scripts look slower than they are.
func realPython() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("python3: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))) + string(os.PathListSeparator) + os.Getenv("PATH"), nil
}
