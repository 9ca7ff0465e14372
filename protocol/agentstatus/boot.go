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
	if err := p.makeFolders(b.Agent); err != nil {
		if errors.Is(err, ErrNotInitialized) {
			return err
		}
		return fmt.Errorf("boot: %w", err)
	}
	return p.Guarded(ctx, func() error {
		if err := p.boot(ctx, b); err != nil {
			return err
		}
		return p.keepBooted(b)
	})
}

// keepBooted has the daemon write the heartbeat of a booted agent whose process is on record, until the agent writes
// its own.
func (s *state) keepBooted(b protocol.Boot) error {
	if b.Process.Proves() {
		if err := s.agents.editRecord(b.Agent, func(r *agentRecord) { r.Kept = true }); err != nil {
			return fmt.Errorf("boot: record: %w", err)
		}
	}
	r, _, err := s.agents.record(b.Agent)
	if err == nil && r.Kept {
		err = s.agents.markKept(b.Agent)
	}
	if err != nil {
		return fmt.Errorf("boot: heartbeat: %w", err)
	}
	return nil
}

// makeFolders creates the protocol's folders.
func (s *state) makeFolders(agent string) error {
	if err := s.Open(); agent == codex && folder.Missing(err) {
		return ErrNotInitialized
	}
	if err := s.Make(); err != nil {
		return err
	}
	for _, dir := range []string{tasksDir, codexDir, livhanaDir, sharedDir, agentsDir} {
		if err := s.Root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// boot writes record, heartbeat, log line and registry. The registry comes last: the next boot takes it as proof that
// this boot was completed.
func (s *state) boot(ctx context.Context, b protocol.Boot) error {
	s.agents.read()
	registered, err := s.wholeRegistry(ctx)
	if err != nil {
		return fmt.Errorf("boot: registry: %w", err)
	}
	again, err := s.bootedAlready(b, registered)
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := s.firstBeat(b); err != nil {
		return fmt.Errorf("boot: heartbeat: %w", err)
	}
	if !again {
		pr := profileOf(b.Agent)
		line := logLine{EventType: pr.event, Source: b.Agent, Message: pr.message}
		if b.Session != "" {
			line.Metadata = map[string]any{"session_id": b.Session}
		}
		if err := s.log.write(line); err != nil {
			return fmt.Errorf("boot: log: %w", err)
		}
	}
	if err := s.enroll(b); err != nil {
		return fmt.Errorf("boot: registry: %w", err)
	}
	return nil
}

// wholeRegistry reads the registry, and waits for a writer in progress. It moves a registry that stays torn aside;
// the boot script would have overwritten it. It returns no members if there is no registry.
func (s *state) wholeRegistry(ctx context.Context) (members map[string]member, err error) {
	err = folder.Whole(ctx, func() error {
		o, _, err := s.Root.Load(registry, maxFile)
		members = decodeRegistry(o).agents
		return err
	})
	if err == nil || !unusable(err) || folder.Missing(err) {
		return members, folder.IgnoreMissing(err)
	}
	return nil, folder.IgnoreMissing(s.Root.Rename(registry, fmt.Sprintf("%s/broken_registry.%d", own, s.Now.UnixNano())))
}

// bootedAlready reports whether this same process has booted here before: the registry shows it, or an interrupted
// boot has left its log line within the last minute. See docs/decisions.md, "Booting twice is booting once".
func (s *state) bootedAlready(b protocol.Boot, registered map[string]member) (bool, error) {
	r, _, err := s.agents.record(b.Agent)
	if err != nil {
		return false, err
	}
	m := registered[b.Agent]
	if m.pid == b.PID && m.status == "active" && r.Session == b.Session && (b.PID > 0 || b.Session != "") {
		return true, nil
	}
	at := s.lastBoot(b.Agent)
	return at.After(m.seen) && b.Now.Sub(at) < time.Minute, nil
}

// logEnd is how much of the log's end is searched for the line of a boot.
const logEnd = 64 << 10

// lastBoot returns the time of the agent's last boot that the end of the log shows.
func (s *state) lastBoot(agent string) (at time.Time) {
	for line := range bytes.Lines(s.End(logFile, logEnd)) {
		o, err := jsonfile.Parse(line)
		if err == nil && text(o, "source_agent") == agent && text(o, "event_type") == profileOf(agent).event {
			at, _ = o.Time("timestamp")
		}
	}
	return at
}

// firstBeat writes the heartbeat of the boot script. Before that it puts the heartbeat's checksum into the agent's
// record, so that this heartbeat does not count as the agent's own sign of life.
func (s *state) firstBeat(b protocol.Boot) error {
	dir := s.agents.dirOf(b.Agent)
	if err := s.Root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	free := profileOf(b.Agent).free
	return s.Update(beatFile(dir), maxFile, func(old []byte) ([]byte, error) {
		doc, err := editedBeat(old, func(o jsonfile.Object) []jsonfile.Set {
			return s.agents.beatEdits(o, b.Agent, Beat{Status: "active", Free: &free, boot: true}, nil)
		})
		if err != nil {
			return nil, err
		}
		return doc, s.agents.editRecord(b.Agent, func(r *agentRecord) {
			// An older process leaves the record: otherwise its death would count as the death of the agent.
			if b.Process.Proves() || b.PID != r.PID {
				*r = agentRecord{Held: r.Held}
				r.setProcesses(b.Process)
			}
			r.Session, r.Booted = b.Session, string(jsonfile.SumOf(doc))
		})
	})
}
