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

// Prepare does what the two boot scripts do (protocol 000, Boot Integration), but merges: other agents' entries,
// unknown keys and the log stay unchanged. A second boot from the same process changes only timestamps. Prepare waits
// up to two seconds for a writer of the registry to finish.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !plainID(b.Agent) {
		return fmt.Errorf("boot: %q is not a valid agent name: it cannot be used as a file name", b.Agent)
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
		r, _, err := p.agents.readRecord(b.Agent)
		if err == nil && r.Kept {
			err = p.agents.markKept(b.Agent)
		}
		if err != nil {
			return fmt.Errorf("boot: heartbeat: %w", err)
		}
		return nil
	})
}

// makeFolders creates the protocol's folders.
func (p *Project) makeFolders(agent string) error {
	if err := p.Open(); agent == codex && folder.Missing(err) {
		return ErrNotInitialized
	}
	if err := p.Make(); err != nil {
		return err
	}
	for _, dir := range []string{tasksDir, codexDir, livhanaDir, sharedDir, agentsDir} {
		if err := p.Root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// boot writes record, heartbeat, log line and registry. The registry comes last: the next boot takes it as proof that
// this boot was completed.
func (p *Project) boot(ctx context.Context, b protocol.Boot) error {
	p.agents.read()
	registered, err := p.wholeRegistry(ctx)
	if err != nil {
		return fmt.Errorf("boot: registry: %w", err)
	}
	again, err := p.bootedAlready(b, registered)
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := p.firstBeat(b); err != nil {
		return fmt.Errorf("boot: heartbeat: %w", err)
	}
	if !again {
		pr := profileOf(b.Agent)
		line := logLine{EventType: pr.event, Source: b.Agent, Message: pr.message}
		if b.Session != "" {
			line.Metadata = map[string]any{"session_id": b.Session}
		}
		if err := p.log.write(line); err != nil {
			return fmt.Errorf("boot: log: %w", err)
		}
	}
	if err := p.enroll(b); err != nil {
		return fmt.Errorf("boot: registry: %w", err)
	}
	return nil
}

// wholeRegistry reads the registry, and waits for a writer in progress. It moves a registry that stays torn aside;
// the boot script would have overwritten it. It returns no members if there is no registry.
func (p *Project) wholeRegistry(ctx context.Context) (members map[string]member, err error) {
	err = folder.Whole(ctx, func() error {
		o, _, err := p.Root.Load(registry, maxFile)
		members = decodeRegistry(o).agents
		return err
	})
	if err == nil || !unusable(err) || folder.Missing(err) {
		return members, folder.IgnoreMissing(err)
	}
	return nil, folder.IgnoreMissing(p.Root.Rename(registry, fmt.Sprintf("%s/broken_registry.%d", own, p.Now.UnixNano())))
}

// bootedAlready reports whether this same process has booted here before: the registry shows it, or an interrupted
// boot has left its log line within the last minute. See docs/decisions.md, "Booting twice is booting once".
func (p *Project) bootedAlready(b protocol.Boot, registered map[string]member) (bool, error) {
	r, _, err := p.agents.readRecord(b.Agent)
	if err != nil {
		return false, err
	}
	m := registered[b.Agent]
	if m.pid == b.PID && m.status == "active" && r.Session == b.Session && (b.PID > 0 || b.Session != "") {
		return true, nil
	}
	at := p.lastBoot(b.Agent)
	return at.After(m.seen) && b.Now.Sub(at) < time.Minute, nil
}

// logEnd is how much of the log's end is searched for the line of a boot.
const logEnd = 64 << 10

// lastBoot returns the time of the agent's last boot that the end of the log shows.
func (p *Project) lastBoot(agent string) (at time.Time) {
	for line := range bytes.Lines(p.End(logFile, logEnd)) {
		o, err := jsonfile.Parse(line)
		if err == nil && text(o, "source_agent") == agent && text(o, "event_type") == profileOf(agent).event {
			at, _ = o.Time("timestamp")
		}
	}
	return at
}

// firstBeat writes the heartbeat of the boot script. Before that it puts the heartbeat's checksum into the agent's
// record, so that this heartbeat does not count as the agent's own sign of life.
func (p *Project) firstBeat(b protocol.Boot) error {
	dir := p.agents.dirOf(b.Agent)
	if err := p.Root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	free := profileOf(b.Agent).free
	return p.Update(beatFile(dir), maxFile, func(old []byte) ([]byte, error) {
		doc, err := editedBeat(old, func(o jsonfile.Object) []jsonfile.Set {
			return p.agents.beatEdits(o, b.Agent, Beat{Status: "active", Free: &free, boot: true}, nil)
		})
		if err != nil {
			return nil, err
		}
		return doc, p.agents.editRecord(b.Agent, func(r *agentRecord) {
			// An older process leaves the record: otherwise its death would count as the death of the agent.
			if b.Process.Proves() || b.PID != r.PID {
				// The daemon writes the heartbeat of a process that is on record until the agent writes its own.
				*r = agentRecord{Held: r.Held, Kept: b.Process.Proves()}
				r.setProcesses(b.Process)
			}
			r.Session, r.Booted = b.Session, string(jsonfile.SumOf(doc))
		})
	})
}

// enroll merges a booted agent into the registry, or creates the registry. Values that others have written into fields that
// a boot does not state stay. Like the boot script of livhana, the boot of livhana that creates the registry also lists codex.
func (p *Project) enroll(b protocol.Boot) error {
	stamp := jsonfile.FormatTime(b.Now)
	var pid any
	if b.PID > 0 {
		pid = b.PID
	}
	edits := func(o jsonfile.Object) ([]jsonfile.Set, error) {
		return append(bootEdits(o, b.Agent, pid, "active", stamp), set(stamp, "updated_at")), nil
	}
	if !p.Has(registry) {
		sets := append([]jsonfile.Set{set(stamp, "updated_at")}, bootEdits(jsonfile.Object{}, b.Agent, pid, "active", stamp)...)
		if b.Agent == livhana {
			sets = append(sets, bootEdits(jsonfile.Object{}, codex, nil, "unknown", nil)...)
		}
		doc, err := jsonfile.Edit([]byte("{}\n"), sets...)
		if err == nil {
			err = p.Root.Create(registry, doc, 0o644)
		}
		if !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	_, err := p.editRegistry(edits)
	return err
}

// Keep writes the heartbeats of agents whose processes are known to live and that leave their heartbeat to steward.
// The map holds the uptime per agent.
func (p *Project) Keep(agents map[string]time.Duration, now time.Time) error {
	if err := p.Open(); err != nil {
		return err
	}
	p.Begin(now)
	var errs []error
	for _, name := range sortedKeys(agents) {
		if !plainID(name) {
			continue
		}
		errs = append(errs, p.agents.editBeat(name, func(old jsonfile.Object) []jsonfile.Set {
			if text(old, keptBy) != ourName {
				return nil
			}
			sets := append(p.agents.healthEdits(old), p.agents.workEdits(old, name)...)
			return append(sets, set(jsonfile.FormatTime(now), "last_heartbeat"), set(int64(agents[name]/time.Second), "uptime_seconds"))
		}))
	}
	return errors.Join(errs...)
}

// workEdits are the edits that make a kept heartbeat say what its agent works on, as far as claims show it. A state that the
// claims do not contradict stays.
func (f *statusFiles) workEdits(old jsonfile.Object, agent string) []jsonfile.Set {
	tasks := []string{}
	for _, k := range f.activeClaims(agent) {
		tasks = append(tasks, k.Task)
	}
	switch status, _ := old.String("status"); {
	case len(tasks) > 0 && status != "error":
		return []jsonfile.Set{set("busy", "status"), set(tasks, "active_tasks")}
	case len(tasks) == 0 && status == "busy":
		return []jsonfile.Set{set("idle", "status"), set(tasks, "active_tasks")}
	}
	return nil
}
