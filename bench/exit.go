package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// measureExit kills the registered processes of forty agents, one after another. Known is when the journal says that
// the agent is dead, by the daemon's own clock; written is when the registry shows it to everybody, which takes an fsync
// more. Each agent dies once: to mark one again within seconds is what steward brakes on purpose.
func measureExit(b *bench) ([]row, error) {
	const target = "p99 ≤ 50 ms"
	known, written, err := b.timeExits(40)
	if err != nil {
		return nil, err
	}
	rows := []row{
		known.within("exit of a registered agent → verdict in the journal", target, 50*time.Millisecond),
		written.within("  the same → registry says error, fsynced", target, 50*time.Millisecond),
	}
	return append(rows, b.exitWithoutWatch()), nil
}

// exitWithoutWatch is the same where the kernel tells nobody of exits: strace lets each pidfd_open fail, and keeps out of
// the way otherwise.
func (b *bench) exitWithoutWatch() row {
	const figure, target = "  the same without pidfd → verdict in the journal", "≤ 2 s"
	known, _, err := b.timeExits(8, "strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=pidfd_open", "-e", "inject=pidfd_open:error=ENOSYS")
	if err != nil {
		return absent(figure, target, "not measured: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return judged(figure, target, known.String(), known.most() <= 2*time.Second)
}

// timeExits kills n agents' processes, under a daemon that is started by wrap.
func (b *bench) timeExits(n int, wrap ...string) (known, written sample, err error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, nil, err
	}
	h.wrap = wrap
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, nil, err
	}
	var agents []*mortal
	for i := range n {
		m, err := h.bring(p, fmt.Sprintf("mortal-%02d", i))
		if err != nil {
			return nil, nil, err
		}
		defer m.end()
		agents = append(agents, m)
	}
	if _, err := h.start(); err != nil {
		return nil, nil, err
	}
	defer h.stop()
	if _, err := await("life in all agents", func() bool { return h.alive() >= n }); err != nil {
		return nil, nil, err
	}
	for _, m := range agents {
		time.Sleep(100 * time.Millisecond)
		at, seen, err := h.timeExit(p, m)
		if err != nil {
			return nil, nil, err
		}
		known, written = append(known, at), append(written, seen)
	}
	return known, written, nil
}

func (h *house) timeExit(p *project, m *mortal) (known, written time.Duration, err error) {
	killed := time.Now()
	m.end()
	seen, err := await("the error in the registry", func() bool { return p.registered(m.name) == "error" })
	if err != nil {
		return 0, 0, err
	}
	at, err := death(h.path("state/journal.jsonl"), m.name)
	return at.Sub(killed), seen.Sub(killed), err
}

// mortal is an agent with a process of its own.
type mortal struct {
	name  string
	child *exec.Cmd
	gone  bool
}

// bring boots an agent whose process is a sleeper.
func (h *house) bring(p *project, name string) (*mortal, error) {
	m := &mortal{name: name, child: exec.Command("sleep", "600")}
	if err := m.child.Start(); err != nil {
		return nil, err
	}
	if err := h.boot(p, name, "--protocol", "agentstatus", "--pid", fmt.Sprint(m.child.Process.Pid)); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// end is kill -9.
func (m *mortal) end() {
	if !m.gone {
		m.gone = true
		_ = m.child.Process.Kill()
		_ = m.child.Wait()
	}
}

// registered is what the registry says of an agent.
func (p *project) registered(agent string) string {
	data, _ := os.ReadFile(p.path("shared/agent_registry.json"))
	var doc struct {
		Agents map[string]struct{ Status string }
	}
	_ = json.Unmarshal(data, &doc)
	return doc.Agents[agent].Status
}

// agentState is what the daemon says of an agent.
func (h *house) agentState(agent string) string {
	var doc struct {
		Agents []struct{ Name, State string }
	}
	_ = h.get("/v1/status", &doc)
	for _, a := range doc.Agents {
		if a.Name == agent {
			return a.State
		}
	}
	return ""
}

// death is the time of an agent's death in the journal.
func death(journal, agent string) (time.Time, error) {
	f, err := os.Open(journal)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			At             time.Time
			Subject, State string
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.State == "dead" && strings.HasSuffix(e.Subject, agent) {
			return e.At, nil
		}
	}
	if err := lines.Err(); err != nil {
		return time.Time{}, err
	}
	return time.Time{}, fmt.Errorf("%s: no death of %s", journal, agent)
}
