package agentstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Registration is what a steward command states when it enrolls an agent. The command vouches for the process.
type Registration struct {
	Agent   string
	Process protocol.Identity
	// Keeper restarts the agent when its process ends: while Keeper lives, such an end does not count as death.
	Keeper  protocol.Identity
	Session string
	// Kept has the daemon write the heartbeat as long as the process lives and the agent writes none itself.
	Kept bool
	// Shared allows several processes to speak for the agent.
	Shared bool
	// Claims: the agent takes tasks by claims alone, as workers do.
	Claims bool
	// Lay creates the protocol's folder if it is missing, as boot does. Without Lay a missing folder gives
	// ErrNotInitialized.
	Lay bool
}

// Enroll boots an agent (Prepare) and records its process on its card. If another living process has the name and the
// registration is not Shared, Enroll returns ErrTaken.
func (c *Client) Enroll(ctx context.Context, post Registration, now time.Time) error {
	c.p.Begin(now)
	if !plainID(post.Agent) {
		return fmt.Errorf("%q is not a name for an agent: it cannot be used as a file name", post.Agent)
	}
	begin := c.p.Make
	if !post.Lay {
		begin = func() error { return c.open(now) }
	}
	if err := begin(); err != nil {
		return fmt.Errorf("enroll %s: %w", post.Agent, err)
	}
	if err := c.p.lay(post.Agent); err != nil {
		return fmt.Errorf("enroll %s: %w", post.Agent, err)
	}
	return c.guarded(ctx, now, func() error {
		k, err := c.p.readCard(post.Agent)
		if err != nil {
			return err
		}
		living := []protocol.Identity{post.Process}
		for _, id := range without(k.processes(), post.Process) {
			if !id.Proves() || c.dead(id) {
				continue
			}
			if !post.Shared {
				return fmt.Errorf("%s is process %d: %w", post.Agent, id.PID, ErrTaken)
			}
			living = append(living, id)
		}
		if k.lists(post.Process) {
			return c.join(post, living)
		}
		return c.enroll(ctx, post, living, k.kept && len(living) > 1, now)
	})
}

// enroll records a new process on the card. kept: the daemon writes the heartbeat of another living process of the
// agent, and resumes that when the new process has left.
func (c *Client) enroll(ctx context.Context, post Registration, living []protocol.Identity, kept bool, now time.Time) error {
	p := c.p
	boot := protocol.Boot{Agent: post.Agent, PID: post.Process.PID, Process: post.Process, Session: post.Session, Now: now}
	if err := p.prepare(ctx, boot); err != nil {
		return err
	}
	err := p.editCard(post.Agent, func(f *cardFile) {
		f.speak(living)
		f.Keeper, f.Kept, f.Worker, f.Left, f.Ending, f.Told, f.Once = identityOn(post.Keeper), post.Kept || kept, post.Claims, "", "", false, false
	})
	if err == nil && post.Kept {
		err = p.markKept(post.Agent)
	}
	return err
}

// join adds what a second command states about a process that is already enrolled: the command that started a worker,
// and the worker itself, both enroll it. What the first command stated stays.
func (c *Client) join(post Registration, living []protocol.Identity) error {
	return c.p.editCard(post.Agent, func(f *cardFile) {
		f.speak(living)
		f.Kept, f.Worker = f.Kept || post.Kept, f.Worker || post.Claims
		if post.Keeper.Proves() {
			f.Keeper = identityOn(post.Keeper)
		}
		if post.Session != "" {
			f.Session = post.Session
		}
	})
}

// Leaving describes how an agent's process ended.
type Leaving struct {
	Failed bool   // not on purpose: the agent counts as dead, with Why as the reason
	Told   bool   // the agent's keeper tells the operator of it
	Once   bool   // a one-shot program under a name that steward made up: it stays listed only for leftShown
	Why    string // such as "exit code 1"
}

// Held returns the operator's reason for holding the agent; "" if the agent is not held.
func (c *Client) Held(agent string, now time.Time) string {
	if c.open(now) != nil || !plainID(agent) {
		return ""
	}
	k, _ := c.p.readCard(agent)
	return k.held
}

// Leave removes a process from the agent's card. When the last process leaves on purpose, the agent becomes idle and
// nothing is expected of it. When the last process failed, the agent counts as dead.
func (c *Client) Leave(ctx context.Context, agent string, process protocol.Identity, l Leaving, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		k, err := p.readCard(agent)
		if err != nil || !k.lists(process) {
			return err // the process was never listed, or another process has taken its place
		}
		var rest []protocol.Identity
		for _, id := range without(k.processes(), process) {
			if id.Proves() && !c.dead(id) {
				rest = append(rest, id)
			}
		}
		if len(rest) > 0 {
			err := p.editCard(agent, func(f *cardFile) { f.speak(rest) })
			if err == nil && k.kept {
				err = p.markKept(agent)
			}
			return err
		}
		return p.leave(agent, l)
	})
}

// leave records the end of an agent's last process. A failed process stays on the card: its absence proves the death.
func (p *Project) leave(agent string, l Leaving) error {
	why := folder.Line(l.Why, 300)
	err := p.editCard(agent, func(f *cardFile) {
		f.Keeper, f.Kept = nil, false
		if l.Failed {
			f.Ending, f.Left, f.Told = why, "", l.Told
			return
		}
		f.Once = l.Once
		f.Ending, f.Left = "", cmp.Or(why, "it left")
		f.speak(nil)
	})
	if err != nil || l.Failed {
		return err
	}
	p.showCurrent(agent)
	_ = p.beat(agent, Beat{Status: "idle"}, nil)
	stamp := jsonfile.FormatTime(p.Now)
	_, err = p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		if _, ok := decodeRoll(o).agents[agent]; !ok {
			return nil, nil
		}
		return []jsonfile.Set{{Path: []string{"agents", agent, "status"}, Value: "idle"}, {Path: []string{"agents", agent, "pid"}, Value: nil},
			{Path: []string{"agents", agent, "last_seen"}, Value: stamp}, {Path: []string{"updated_at"}, Value: stamp}}, nil
	})
	p.say("agent_left", "", agent, "", agent+" left: "+cmp.Or(why, "on purpose"))
	return err
}

// describe copies the card's data into the agent that policies read.
func (k *agentRecord) describe(a *protocol.Agent) {
	a.Process, a.Others, a.Held = k.process, k.others, k.held
	a.Keeper, a.Kept, a.Claims, a.Ending, a.Told = k.keeper, k.kept, k.worker, k.ending, k.told
	if k.left != "" {
		a.Idle, a.Left, a.PID = true, k.left, 0
	}
}

// Beat is the content of a heartbeat (protocol 000, Heartbeat Schema).
type Beat struct {
	Status    string // active, idle, busy, paused, error
	Uptime    time.Duration
	Free      *float64 // current_capacity: the available share; nil leaves what is there
	Tasks     []string // in addition to the tasks that the agent has claimed
	LastError string
	DiskFull  bool
}

// Beat writes the agent's own heartbeat. It lists all tasks claimed in the agent's name, whichever worker claimed
// them.
func (c *Client) Beat(agent string, b Beat, now time.Time) error {
	if err := c.open(now); err != nil {
		return err
	}
	tasks := append([]string{}, b.Tasks...)
	for _, k := range c.p.claims() {
		if k.Agent == agent {
			tasks = append(tasks, k.Task)
		}
	}
	if len(tasks) > 0 && b.Status == "idle" {
		b.Status = "busy" // another worker of the same name is at work
	}
	return c.p.beat(agent, b, tasks)
}

// beat edits or creates the heartbeat file. Fields that others have written stay.
func (p *Project) beat(agent string, b Beat, tasks []string) error {
	p.seatAgents()
	file := beatFile(p.deskOf(agent))
	if tasks == nil {
		tasks = []string{}
	}
	var lastError any
	if b.LastError != "" {
		lastError = folder.Line(b.LastError, 300)
	}
	late, err := p.Root.Update(file, maxFile, func(old []byte) ([]byte, error) {
		if _, err := jsonfile.Parse(old); err != nil {
			old = []byte("{}\n")
		}
		set := func(v any, at ...string) jsonfile.Set { return jsonfile.Set{Path: at, Value: v} }
		sets := []jsonfile.Set{set(agent, "agent_name"), set(b.Status, "status"), set(jsonfile.FormatTime(p.Now), "last_heartbeat"),
			set(int64(b.Uptime/time.Second), "uptime_seconds")}
		if b.Free != nil {
			sets = append(sets, set(*b.Free, "current_capacity"))
		} else if o, err := jsonfile.Parse(old); err == nil && !o.Has("current_capacity") {
			sets = append(sets, set(1.0, "current_capacity"))
		}
		sets = append(sets, set(tasks, "active_tasks"))
		if b.Free != nil { // an agent that reports its own load knows whether it can write
			sets = append(sets, set(true, "health", "disk_ok"))
		}
		sets = append(sets, p.healthEdits(old, p.Now)...)
		if b.DiskFull {
			sets = append(sets, set(false, "health", "disk_ok"))
		}
		sets = append(sets, set(lastError, "health", "last_error"), jsonfile.Remove(keptBy))
		return jsonfile.Edit(old, sets...)
	}, jsonfile.Volatile)
	_ = late.Close()
	return err
}

// keptBy marks a heartbeat that steward writes. An agent that writes its own heartbeat omits the mark, and from then
// on steward leaves the heartbeat alone: otherwise it would hide a hanging agent.
const keptBy = "kept_by"

// markKept marks an agent's first heartbeat as written by steward.
func (p *Project) markKept(agent string) error {
	late, err := p.Root.Update(beatFile(p.deskOf(agent)), maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, jsonfile.Set{Path: []string{keptBy}, Value: ourName})
	}, jsonfile.Volatile)
	_ = late.Close()
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
		late, err := p.Root.Update(beatFile(p.deskOf(name)), maxFile, func(old []byte) ([]byte, error) {
			o, err := jsonfile.Parse(old)
			if err != nil || text(o, keptBy) != ourName {
				return nil, nil
			}
			return jsonfile.Edit(old, append(p.healthEdits(old, now), jsonfile.Set{Path: []string{"last_heartbeat"}, Value: jsonfile.FormatTime(now)},
				jsonfile.Set{Path: []string{"uptime_seconds"}, Value: int64(agents[name] / time.Second)})...)
		}, jsonfile.Volatile)
		_ = late.Close()
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
