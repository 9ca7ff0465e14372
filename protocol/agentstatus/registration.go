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

// Registration is an agent's place as one of our own commands takes it: somebody vouches for the process.
type Registration struct {
	Agent   string
	Process protocol.Identity
	// Keeper starts the agent again when its process ends, so that its end is no death while the Keeper lives.
	Keeper  protocol.Identity
	Session string
	// Kept has the daemon keep the heartbeat as long as the process lives and the agent writes none itself.
	Kept bool
	// Shared: several processes may speak for the one agent.
	Shared bool
	// Claims: it takes tasks by claims alone, as workers do.
	Claims bool
	// Lay sets the protocol's folder up where it is missing, as boot does; else that is ErrNotInitialized.
	Lay bool
}

// Enroll boots an agent (Prepare) and puts its process on its card. A name that another living process has, and does
// not share, is ErrTaken.
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

// enroll puts a new process on the card. kept: the daemon keeps the heartbeat of another living process of the agent, and
// does so again when the new process has left.
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

// join adds what a second of our commands knows of a process that is enrolled already: whoever started a worker, and
// the worker itself. What the first one said stays.
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

// Leaving is how an agent's process ends.
type Leaving struct {
	Failed bool   // not on purpose: the agent counts as dead, for this reason
	Told   bool   // the human is told of it by whoever kept it
	Once   bool   // the program ran once under a name that steward made up: after a while it is not listed any more
	Why    string // such as "exit code 1"
}

// Held is the operator's reason for holding the agent, "" when it is not held.
func (c *Client) Held(agent string, now time.Time) string {
	if c.open(now) != nil || !plainID(agent) {
		return ""
	}
	k, _ := c.p.readCard(agent)
	return k.held
}

// Leave takes a process off the agent's card. The last one to leave on purpose leaves an idle agent of which nothing is
// expected; one that failed leaves a dead one.
func (c *Client) Leave(ctx context.Context, agent string, process protocol.Identity, l Leaving, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		k, err := p.readCard(agent)
		if err != nil || !k.lists(process) {
			return err // it was never on it, or somebody has taken its place
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

// leave writes down the end of an agent's last process. A failed one stays on the card: its absence is the proof.
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

// describe puts what the card says of an agent into what policies read.
func (k *agentRecord) describe(a *protocol.Agent) {
	a.Process, a.Others, a.Held = k.process, k.others, k.held
	a.Keeper, a.Kept, a.Claims, a.Ending, a.Told = k.keeper, k.kept, k.worker, k.ending, k.told
	if k.left != "" {
		a.Idle, a.Left, a.PID = true, k.left, 0
	}
}

// Beat is what a heartbeat says (protocol 000, Heartbeat Schema).
type Beat struct {
	Status    string // active, idle, busy, paused, error
	Uptime    time.Duration
	Free      *float64 // current_capacity: the available share; nil leaves what is there
	Tasks     []string // beside those that the agent has claimed
	LastError string
	DiskFull  bool
}

// Beat writes the agent's own heartbeat. The tasks that it has claimed are named in it, whoever of it claimed them.
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

// beat edits the heartbeat file, or makes it: what others have put into it stays.
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
		if b.Free != nil { // an agent that speaks of itself knows whether it can write
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

// keptBy marks a heartbeat that steward keeps. An agent that beats itself writes without the mark, and from then on
// steward leaves its heartbeat alone: else it would hide that the agent hangs.
const keptBy = "kept_by"

// markKept makes the first heartbeat of an agent one that steward keeps.
func (p *Project) markKept(agent string) error {
	late, err := p.Root.Update(beatFile(p.deskOf(agent)), maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, jsonfile.Set{Path: []string{keptBy}, Value: ourName})
	}, jsonfile.Volatile)
	_ = late.Close()
	return err
}

// Keep beats for agents whose processes are known to live and that leave that to steward. Uptime is per agent.
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
