package agentstatus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The two agents of protocol 000, Agent Topology.
const (
	livhana = "livhana-layer1.1"
	codex   = "codex-cursor"
)

// ErrNotInitialized means that the protocol's folders are missing: livhana creates them, and codex must not boot
// before that (protocol 000, CODEX Boot Sequence).
var ErrNotInitialized = errors.New("inter-agent communication not initialized")

// profile is what the boot scripts of protocol 000 write for an agent.
type profile struct {
	kind, environment string
	capabilities      []string
	free              float64
	event, message    string
}

func profileOf(agent string) profile {
	switch agent {
	case livhana:
		return profile{"orchestrator", "claude-code-cli", []string{"voice", "orchestration", "task_delegation"}, 1.0,
			"session_start", "Inter-agent communication initialized"}
	case codex:
		return profile{"executor", "cursor-ide", []string{"code_execution", "file_operations", "git_operations"}, 0.8,
			"agent_ready", "CODEX agent initialized and ready for tasks"}
	}
	return profile{"executor", "unknown", []string{}, 1.0, "agent_ready", agent + " initialized and ready for tasks"}
}

// KnownAgents lists the agent names that imply this protocol.
func KnownAgents() []string { return []string{livhana, codex} }

// Prepare does what the two boot scripts do (protocol 000, Boot Integration), but merges: other agents' entries,
// unknown keys and the log stay unchanged. A second boot from the same process changes only timestamps. Prepare waits
// up to two seconds for a writer of the registry to finish.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !plainID(b.Agent) {
		return fmt.Errorf("boot: %q is not a name for an agent: it cannot be used as a file name", b.Agent)
	}
	if err := p.lay(b.Agent); err != nil {
		if errors.Is(err, ErrNotInitialized) {
			return err
		}
		return fmt.Errorf("boot: %w", err)
	}
	return p.Guarded(ctx, func() error {
		if err := p.prepare(ctx, b); err != nil {
			return err
		}
		return p.keepBooted(b)
	})
}

// keepBooted has the daemon write the heartbeat of a booted agent whose process is on record, until the agent writes
// its own.
func (p *Project) keepBooted(b protocol.Boot) error {
	if b.Process.Proves() {
		if err := p.editCard(b.Agent, func(f *cardFile) { f.Kept = true }); err != nil {
			return fmt.Errorf("boot: card: %w", err)
		}
	}
	k, err := p.readCard(b.Agent)
	if err == nil && k.kept {
		err = p.markKept(b.Agent)
	}
	if err != nil {
		return fmt.Errorf("boot: heartbeat: %w", err)
	}
	return nil
}

// lay creates the folders.
func (p *Project) lay(agent string) error {
	if err := p.Open(); agent == codex && folder.Missing(err) {
		return ErrNotInitialized
	}
	if err := p.Make(); err != nil {
		return err
	}
	for _, dir := range []string{tasksDir, "codex_status", "livhana_status", sharedDir, agentsDir} {
		if err := p.Root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// prepare writes card, heartbeat, log line and registry. The registry comes last: the next boot takes it as proof
// that this boot was completed.
func (p *Project) prepare(ctx context.Context, b protocol.Boot) error {
	p.probe(".", agentsDir, sharedDir)
	p.readAgents(nil)
	whole, err := p.wholeRegistry(ctx)
	if err != nil {
		return fmt.Errorf("boot: registry: %w", err)
	}
	again, err := p.bootedAlready(b, whole)
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := p.firstBeat(b); err != nil {
		return fmt.Errorf("boot: heartbeat: %w", err)
	}
	if !again {
		if err := p.announce(b); err != nil {
			return fmt.Errorf("boot: log: %w", err)
		}
	}
	if err := p.enroll(b); err != nil {
		return fmt.Errorf("boot: registry: %w", err)
	}
	return nil
}

// wholeRegistry reads the registry, and waits for a writer in progress. It moves a registry that stays torn aside;
// the boot script would have overwritten it. It returns nil if there is no registry.
func (p *Project) wholeRegistry(ctx context.Context) (*registryContent, error) {
	var whole *registryContent
	err := folder.Whole(ctx, func() error {
		o, _, err := p.Root.Load(registry, maxFile)
		if err == nil {
			r := decodeRoll(o)
			whole = &r
		}
		return err
	})
	if err == nil || !unusable(err) {
		return whole, err
	}
	if folder.Missing(err) {
		return nil, nil
	}
	aside := fmt.Sprintf("%s/broken_registry.%d", own, p.Now.UnixNano())
	if err := p.Root.Rename(registry, aside); err != nil && !folder.Missing(err) {
		return nil, err
	}
	return nil, nil
}

// unusable reports whether the error means that the document is missing, torn or malformed.
func unusable(err error) bool {
	return folder.Missing(err) || errors.Is(err, jsonfile.ErrTorn) || errors.Is(err, jsonfile.ErrBad)
}

// bootedAlready reports whether this same process has booted here before: the registry shows it, or an interrupted
// boot has left its log line within the last minute.
func (p *Project) bootedAlready(b protocol.Boot, whole *registryContent) (bool, error) {
	k, err := p.readCard(b.Agent)
	if err != nil {
		return false, err
	}
	var m member
	if whole != nil {
		m = whole.agents[b.Agent]
	}
	if m.pid == b.PID && m.status == "active" && k.session == b.Session && (b.PID > 0 || b.Session != "") {
		return true, nil
	}
	at := p.lastBoot(b.Agent)
	return at.After(m.seen) && b.Now.Sub(at) < time.Minute, nil
}

// lastBoot returns the time of the agent's last boot that the end of the log shows.
func (p *Project) lastBoot(agent string) (at time.Time) {
	const tail = 64 << 10
	st, err := p.Root.Stat(logFile)
	if err != nil {
		return at
	}
	data, _, err := p.Root.ReadAt(logFile, max(0, st.Size-tail), tail)
	if err != nil {
		return at
	}
	for line := range bytes.Lines(data) {
		o, err := jsonfile.Parse(line)
		if err != nil {
			continue
		}
		if e, _ := decodeLine(o); e.source == agent && e.event == profileOf(agent).event {
			at = e.at.At
		}
	}
	return at
}

// announce writes the log line of a boot.
func (p *Project) announce(b protocol.Boot) error {
	pr := profileOf(b.Agent)
	line := logLine{Timestamp: jsonfile.FormatTime(b.Now), EventType: pr.event, Source: b.Agent, Message: pr.message}
	if b.Session != "" {
		line.Metadata = map[string]any{"session_id": b.Session}
	}
	return p.write(line)
}

// bootCard records the process that the caller vouched for, and removes an older process from the card: otherwise the
// death of the older process would count as the death of the agent.
func (p *Project) bootCard(b protocol.Boot, beat jsonfile.Sum) error {
	k, err := p.readCard(b.Agent)
	if err != nil {
		return err
	}
	return p.editCard(b.Agent, func(f *cardFile) {
		f.Session = b.Session
		if b.Process.Proves() || b.PID != k.process.PID {
			*f = cardFile{Session: b.Session, Held: f.Held}
			f.carry(b.Process)
		}
		f.Booted = string(beat)
	})
}
