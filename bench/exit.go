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
	const n, target = 40, "p99 ≤ 50 ms"
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	var agents []*mortal
	for i := range n {
		m, err := h.bring(p, fmt.Sprintf("mortal-%02d", i))
		if err != nil {
			return nil, err
		}
		defer m.end()
		agents = append(agents, m)
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	if _, err := await("life in all agents", func() bool { return h.alive() >= n }); err != nil {
		return nil, err
	}
	var written, known sample
	for _, m := range agents {
		time.Sleep(100 * time.Millisecond)
		killed := time.Now()
		m.end()
		seen, err := await("the error in the registry", func() bool { return p.registered(m.name) == "error" })
		if err != nil {
			return nil, err
		}
		written = append(written, seen.Sub(killed))
		at, err := death(h.path("state/journal.jsonl"), m.name)
		if err != nil {
			return nil, err
		}
		known = append(known, at.Sub(killed))
	}
	return []row{
		known.within("exit of a registered agent → verdict in the journal", target, 50*time.Millisecond),
		written.within("  the same → registry says error, fsynced", target, 50*time.Millisecond),
	}, nil
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
