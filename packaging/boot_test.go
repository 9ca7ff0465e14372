// Package packaging_test runs what is shipped beside the binary.
package packaging_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBootScripts builds steward once, and runs the scripts with it.
func TestBootScripts(t *testing.T) {
	steward := filepath.Join(t.TempDir(), "steward")
	build := exec.Command("go", "build", "-o", steward, "../cmd/steward")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build steward: %v: %s", err, out)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, string)
	}{
		{"as the document's", asTheDocuments}, {"twice merges", twiceMerges}, {"by hand without python", byHandWithoutPython},
		{"codex comes second", codexComesSecond}, {"the boot goes on", bootGoesOn}, {"find the project", findTheProject},
		{"vouch for the agent alone", vouchForTheAgentAlone}, {"with a daemon", withADaemon}, {"clean", cleanScripts},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, steward) })
	}
}

const (
	step35   = "claude_tier1_step3.5.sh"
	codex    = "codex_agent_boot.sh"
	notThere = "steward is not installed"
	awkward  = "a b & 'c' \"d\" $HOME `e` (f)" // part of every path here
)

// place is a project with its boot scripts, in a home of its own.
type place struct {
	*testing.T
	dir string
	env []string
}

// newPlace is a project with an awkward path. Without steward if that is "".
func newPlace(t *testing.T, steward string) *place {
	t.Helper()
	return newPlaceIn(t, filepath.Join(t.TempDir(), awkward), steward)
}

// newPlaceIn lays the scripts out as the document does: under scripts/, step 3.5 within a larger script.
func newPlaceIn(t *testing.T, home, steward string) *place {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("skipped: the document's scripts need python3")
	}
	sockets, err := os.MkdirTemp("", "st") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	p := &place{T: t, dir: filepath.Join(home, "project")}
	bin := filepath.Join(home, "bin")
	p.put("../bin/README", "programs for the tests")
	if steward != "" {
		if err := os.Symlink(steward, filepath.Join(bin, "steward")); err != nil {
			t.Fatal(err)
		}
	} else if exists("/opt/homebrew/bin/steward") || exists("/usr/local/bin/steward") || exists("/usr/bin/steward") {
		t.Skip("skipped: steward is installed on this machine, where the scripts find it")
	}
	p.env = []string{"HOME=" + home, "PATH=" + bin + ":" + pathWithout("steward"), "STEWARD_STATE_DIR=" + filepath.Join(home, "state"),
		"STEWARD_SOCKET=" + filepath.Join(sockets, "s"), "STEWARD_CONFIG=" + filepath.Join(home, "config.toml")}
	p.put("../config.toml", "[supervisor]\nlook_every = \"200ms\"\n[escalate]\nchannels = []\n")
	for _, name := range []string{step35, codex} {
		text, err := os.ReadFile(filepath.Join("boot", name))
		if err != nil {
			t.Fatal(err)
		}
		p.put("scripts/"+name, string(text))
	}
	p.put("scripts/claude_tier1_boot.sh", outer+". \"$ROOT/scripts/"+step35+"\"\n"+after)
	return p
}

// outer and after are the rest of claude_tier1_boot.sh.
const (
	outer = "set -euo pipefail\nROOT=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")/..\" && pwd)\"\nbefore=$-\n" +
		"banner() { echo \"== $1\"; }\nsuccess() { echo \"✅ $1\"; }\ninfo() { echo \"$1\"; }\n"
	after = "[[ $- == \"$before\" ]] || echo \"the options were changed\"\necho STEP 4\n"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func pathWithout(program string) string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	return strings.Join(slices.DeleteFunc(dirs, func(d string) bool { return exists(filepath.Join(d, program)) }), ":")
}

func (p *place) put(name, text string) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		p.Fatal(err)
	}
}

func (p *place) read(name string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "tmp/agent_status", name))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

func (p *place) command(argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), argv[0], argv[1:]...)
	if path := p.look(argv[0]); path != "" {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

func (p *place) look(name string) string {
	for _, dir := range filepath.SplitList(strings.TrimPrefix(p.env[1], "PATH=")) {
		if path := filepath.Join(dir, name); !strings.Contains(name, "/") && exists(path) {
			return path
		}
	}
	return ""
}

func (p *place) run(argv ...string) (string, error) {
	out, err := p.command(argv...).CombinedOutput()
	return string(out), err
}

func (p *place) mustRun(argv ...string) string {
	p.Helper()
	out, err := p.run(argv...)
	if err != nil {
		p.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return out
}

func (p *place) boot() string {
	p.Helper()
	return p.mustRun("bash", "scripts/claude_tier1_boot.sh") + p.mustRun("bash", "scripts/"+codex)
}

// bootAsTheDocument runs the document's own scripts.
func (p *place) bootAsTheDocument() string {
	p.Helper()
	for ours, theirs := range map[string]string{"claude_tier1_boot.sh": "step35.sh", codex: codex} {
		text, err := os.ReadFile(filepath.Join("../bench/scripts", theirs))
		if err != nil {
			p.Fatal(err)
		}
		if ours != codex {
			text = append(text, "echo STEP 4\n"...)
		}
		p.put("scripts/"+ours, string(text))
	}
	return p.boot()
}

var (
	stamp  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	number = regexp.MustCompile(`"pid":\d+`)
)

// left is what lies in the project's agent_status, without steward's own folder: JSON in one form, stamps and pids as *.
func (p *place) left() map[string]string {
	p.Helper()
	all := map[string]string{}
	base := filepath.Join(p.dir, "tmp/agent_status")
	err := filepath.Walk(base, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(base, path)
		if name == "steward" {
			return filepath.SkipDir
		}
		if info.IsDir() {
			all[name] = "folder"
			return nil
		}
		d := json.NewDecoder(strings.NewReader(p.read(name)))
		for d.More() {
			var doc any
			if err := d.Decode(&doc); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			text, _ := json.Marshal(doc)
			all[name] += number.ReplaceAllString(stamp.ReplaceAllString(string(text), "*"), `"pid":"*"`) + "\n"
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
	return all
}

// same compares maps and texts, and shows both.
func (p *place) same(what string, got, want map[string]string) {
	p.Helper()
	for name := range want {
		if got[name] != want[name] {
			p.Errorf("%s: %s is\n%s\nwant\n%s", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			p.Errorf("%s: %s is too much: %s", what, name, got[name])
		}
	}
}

// registered reads an agent's entry.
func (p *place) registered(agent string) (entry struct {
	Status string
	PID    int
	Note   string
}) {
	p.Helper()
	var registry struct{ Agents map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(p.read("shared/agent_registry.json")), &registry); err != nil {
		p.Fatal(err)
	}
	if err := json.Unmarshal(registry.Agents[agent], &entry); err != nil {
		p.Fatalf("%s: %v", agent, err)
	}
	return entry
}

func asTheDocuments(t *testing.T, steward string) {
	theirs := newPlaceIn(t, filepath.Join(t.TempDir(), "plain"), steward) // quotes in a path break the document's own
	said := stamp.ReplaceAllString(theirs.bootAsTheDocument(), "*")
	for name, with := range map[string]string{"with steward": steward, "by hand": ""} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, with)
			var lines []string
			for line := range strings.Lines(stamp.ReplaceAllString(p.boot(), "*")) {
				if !strings.HasPrefix(line, notThere) {
					lines = append(lines, strings.ReplaceAll(line, p.dir, theirs.dir))
				} else if with != "" {
					t.Errorf("said: %s", line)
				}
			}
			if got := strings.Join(lines, ""); got != said {
				t.Errorf("it says\n%s\nthe document's say\n%s", got, said)
			}
			p.same(name, p.left(), theirs.left())
			if p.registered("codex-cursor").PID < 2 || p.registered("livhana-layer1.1").PID < 2 {
				t.Error("a pid is missing")
			}
		})
	}
}

func twiceMerges(t *testing.T, steward string) {
	for name, with := range map[string]string{"with steward": steward, "by hand": ""} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, with)
			p.boot()
			registry := p.read("shared/agent_registry.json")
			p.put("tmp/agent_status/shared/agent_registry.json", strings.Replace(registry, `"agents": {`, `"agents": {"planner": {"status": "busy"},`, 1))
			p.put("tmp/agent_status/codex_tasks/task_1.request.json", "{}")
			before := p.left()
			p.boot()
			after := p.left()
			const log = "shared/coordination_log.jsonl"
			if !strings.HasPrefix(after[log], before[log]) || strings.Count(after[log], "\n") != 4 {
				t.Errorf("the log: %s", after[log])
			}
			delete(before, log)
			delete(after, log)
			p.same(name, after, before)
			if p.registered("planner").Status != "busy" {
				t.Error("another agent's entry is gone")
			}
		})
	}
}

func byHandWithoutPython(t *testing.T, _ string) {
	p := newPlace(t, "")
	p.boot()
	p.put("../bin/python3", "#!/bin/sh\nexit 127\n")
	before := p.read("shared/agent_registry.json")
	out := p.boot()
	if strings.Count(out, "The registry was left as it is") != 2 || strings.Count(out, notThere) != 2 || p.read("shared/agent_registry.json") != before {
		t.Errorf("it says\n%s", out)
	}
}

func codexComesSecond(t *testing.T, steward string) {
	for _, with := range []string{steward, ""} {
		p := newPlace(t, with)
		out, err := p.run("bash", "scripts/"+codex)
		var exit *exec.ExitError
		if exit, _ = err.(*exec.ExitError); exit == nil || exit.ExitCode() != 1 ||
			!strings.HasSuffix(out, "\nERROR: Inter-agent communication not initialized\nRun: bash scripts/claude_tier1_boot.sh first\n") {
			t.Errorf("%v\n%s", err, out)
		}
		if exists(filepath.Join(p.dir, "tmp")) {
			t.Error("it has set something up")
		}
	}
}

// The rest of the boot is not held up by a set-up that cannot be done, nor changed by one that can.
func bootGoesOn(t *testing.T, steward string) {
	for _, with := range []string{steward, ""} {
		p := newPlace(t, with)
		p.put("tmp/agent_status", "no folder")
		out := p.mustRun("bash", "scripts/claude_tier1_boot.sh")
		if !strings.Contains(out, "was not initialized") || strings.Contains(out, "✅") || !strings.HasSuffix(out, "\nSTEP 4\n") {
			t.Errorf("with steward %q:\n%s", with, out)
		}
	}
	// A steward that does not run at all.
	p := newPlace(t, steward)
	p.env = append(p.env, "STEWARD=/bin/false")
	if out := p.mustRun("bash", "scripts/claude_tier1_boot.sh"); !strings.Contains(out, "was not initialized") || !strings.HasSuffix(out, "\nSTEP 4\n") {
		t.Errorf("a broken steward:\n%s", out)
	}
	p.put("tmp/agent_status/x", "")
	if out, err := p.run("bash", "scripts/"+codex); err == nil || strings.Contains(out, "✅") {
		t.Errorf("a broken steward: %v\n%s", err, out)
	}
}

func findTheProject(t *testing.T, steward string) {
	p := newPlace(t, steward)
	other := filepath.Join(filepath.Dir(p.dir), "other project")
	elsewhere, err := filepath.Abs("boot")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script, dir, root string
		want                    string
	}{
		{"the scripts folder", filepath.Join(p.dir, "scripts", step35), "/", "", p.dir},
		{"ROOT", filepath.Join(p.dir, "scripts", step35), "/", other, other},
		{"the git top level", filepath.Join(elsewhere, step35), filepath.Join(other, "deep/in it"), "", other},
		{"codex: the git top level", filepath.Join(elsewhere, codex), filepath.Join(other, "deep/in it"), "", other},
		{"codex: ROOT", filepath.Join(elsewhere, codex), "/", p.dir, p.dir},
	} {
		if err := os.MkdirAll(filepath.Join(other, "deep/in it"), 0o755); err != nil {
			t.Fatal(err)
		}
		p.mustRun("git", "init", "-q", other)
		cmd := p.command("bash", c.script)
		if cmd.Dir = c.dir; c.root != "" {
			cmd.Env = append(cmd.Env, "ROOT="+c.root)
		}
		for _, dir := range []string{p.dir, other} {
			_ = os.RemoveAll(filepath.Join(dir, "tmp"))
			if strings.HasPrefix(c.name, "codex") {
				_ = os.MkdirAll(filepath.Join(dir, "tmp/agent_status"), 0o755)
			}
		}
		out, err := cmd.CombinedOutput()
		beats, _ := filepath.Glob(filepath.Join(strings.NewReplacer("[", "\\[").Replace(filepath.Dir(p.dir)), "*/tmp/agent_status/*_status/heartbeat.json"))
		if err != nil || len(beats) != 1 || !strings.HasPrefix(beats[0], c.want+"/") {
			t.Errorf("%s: %v, heartbeats %q, want one in %s\n%s", c.name, err, beats, c.want, out)
		}
	}
}

// A pid is vouched for only if it lives as long as the agent.
func vouchForTheAgentAlone(t *testing.T, steward string) {
	card := func(p *place, agent string) string {
		text, _ := os.ReadFile(filepath.Join(p.dir, "tmp/agent_status/steward/agents", agent+".json"))
		return string(text)
	}
	p := newPlace(t, steward)
	p.boot()
	for _, agent := range []string{"livhana-layer1.1", "codex-cursor"} {
		if text := card(p, agent); strings.Contains(text, `"pid"`) {
			t.Errorf("%s: the script's own pid is vouched for: %s", agent, text)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ agent, program, script string }{
		{"livhana-layer1.1", "claude", "claude_tier1_boot.sh"}, {"codex-cursor", "codex", codex}, {"codex-cursor", "cursor-agent", codex},
	} {
		p := newPlace(t, steward)
		p.boot()
		p.put("../bin/"+c.program, string(program))
		// As an agent does: by a shell of its own.
		cmd := p.command(c.program, "-c", "bash -c 'bash scripts/"+c.script+" && true'; exit $?")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if got := p.registered(c.agent); got.PID != cmd.Process.Pid || !strings.Contains(card(p, c.agent), fmt.Sprintf(`"pid": %d`, got.PID)) {
			t.Errorf("%s: pid %d, want that of %s, %d; card: %s", c.agent, got.PID, c.program, cmd.Process.Pid, card(p, c.agent))
		}
		p.env = append(p.env, "STEWARD_AGENT_PID="+strconv.Itoa(os.Getpid()))
		p.mustRun("bash", "scripts/"+c.script)
		if got := p.registered(c.agent); got.PID != os.Getpid() {
			t.Errorf("%s: pid %d, want the one that was named, %d", c.agent, got.PID, os.Getpid())
		}
	}
}

// With a daemon: the agents are there at once, and the end of the scripts is not their end.
func withADaemon(t *testing.T, steward string) {
	if testing.Short() {
		t.Skip("short: it runs the whole program, with its real waits")
	}
	p := newPlace(t, steward)
	daemon := p.command("steward", "run", "--project", p.dir)
	var said bytes.Buffer
	daemon.Stdout, daemon.Stderr = &said, &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon: %v\n%s", err, said.String())
		}
	}()
	p.await("status", `"looks": *[1-9]`)
	for range 2 {
		p.boot()
		p.await("agents", `(?s)"expected".*"expected"`) // neither beats by itself
	}
	time.Sleep(2 * time.Second) // ten looks: what wrongly proves the death of an agent has done so by now
	if out := p.mustRun("steward", "agents", "-o", "json"); strings.Count(out, `"expected"`) != 2 {
		t.Errorf("agents: %s", out)
	}
	if log := p.read("shared/coordination_log.jsonl"); strings.Count(log, "session_start") != 2 || strings.Count(log, "agent_ready") != 2 {
		t.Errorf("log: %s", log)
	}
}

func (p *place) await(list, pattern string) {
	p.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, err := p.run("steward", list, "-o", "json")
		if err == nil && regexp.MustCompile(pattern).MatchString(out) {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("steward %s does not show %s: %v\n%s", list, pattern, err, out)
		}
	}
}

// The repository's lint leaves out files with the document's names, and one of ours has such a name.
func cleanScripts(t *testing.T, _ string) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("skipped: shellcheck is not installed")
	}
	if out, err := exec.Command("shellcheck", filepath.Join("boot", step35), filepath.Join("boot", codex)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
