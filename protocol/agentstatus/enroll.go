package agentstatus

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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

// Enroll boots an agent (Prepare) and puts its process on record. If another living process has the name and the
// registration is not Shared, Enroll returns ErrTaken.
func (c *Client) Enroll(ctx context.Context, reg Registration, now time.Time) error {
	p := c.p
	p.Begin(now)
	if !plainID(reg.Agent) {
		return fmt.Errorf("%q is not a valid agent name: it cannot be used as a file name", reg.Agent)
	}
	begin := p.Make
	if !reg.Lay {
		begin = func() error { return c.open(now) }
	}
	err := begin()
	if err == nil {
		err = p.makeFolders(reg.Agent)
	}
	if err != nil {
		return fmt.Errorf("enroll %s: %w", reg.Agent, err)
	}
	return c.guarded(ctx, now, func() error {
		r, _, err := p.agents.readRecord(reg.Agent)
		if err != nil {
			return err
		}
		others := c.living(without(r.processes(), reg.Process))
		if len(others) > 0 && !reg.Shared {
			return fmt.Errorf("%s is process %d: %w", reg.Agent, others[0].PID, ErrTaken)
		}
		all := append([]protocol.Identity{reg.Process}, others...)
		if r.lists(reg.Process) {
			return p.agents.editRecord(reg.Agent, func(r *agentRecord) { reg.join(r, all) })
		}
		// kept: the daemon writes the heartbeat of another living process, and resumes that when the new process has left.
		kept := r.Kept && len(others) > 0
		boot := protocol.Boot{Agent: reg.Agent, PID: reg.Process.PID, Process: reg.Process, Session: reg.Session, Now: now}
		if err := p.boot(ctx, boot); err != nil {
			return err
		}
		err = p.agents.editRecord(reg.Agent, func(r *agentRecord) {
			r.setProcesses(all...)
			r.Keeper, r.Kept, r.Worker, r.Left, r.Ending, r.Told, r.Once = identityOn(reg.Keeper), reg.Kept || kept, reg.Claims, "", "", false, false
		})
		if err == nil && reg.Kept {
			err = p.agents.markKept(reg.Agent)
		}
		return err
	})
}

// living lists the processes that can prove a death and are not proved dead.
func (c *Client) living(list []protocol.Identity) (living []protocol.Identity) {
	for _, id := range list {
		if id.Proves() && c.alive(id) {
			living = append(living, id)
		}
	}
	return living
}

// join adds what a second command states about a process that is already enrolled: the command that started a worker,
// and the worker itself, both enroll it. What the first command stated stays.
func (reg *Registration) join(r *agentRecord, processes []protocol.Identity) {
	r.setProcesses(processes...)
	r.Kept, r.Worker = r.Kept || reg.Kept, r.Worker || reg.Claims
	if reg.Keeper.Proves() {
		r.Keeper = identityOn(reg.Keeper)
	}
	r.Session = cmp.Or(reg.Session, r.Session)
}

// Held returns the operator's reason for holding the agent; "" if the agent is not held.
func (c *Client) Held(agent string, now time.Time) string {
	if c.open(now) != nil || !plainID(agent) {
		return ""
	}
	r, _, _ := c.p.agents.readRecord(agent)
	return r.Held
}

// Beat writes the agent's own heartbeat. It lists all tasks claimed in the agent's name, whichever worker claimed
// them.
func (c *Client) Beat(agent string, b Beat, now time.Time) error {
	if err := c.open(now); err != nil {
		return err
	}
	tasks := b.Tasks
	for _, k := range c.p.activeClaims(agent) {
		tasks = append(tasks[:len(tasks):len(tasks)], k.Task)
	}
	if len(tasks) > 0 && b.Status == "idle" {
		b.Status = "busy" // another worker of the same name is at work
	}
	return c.p.agents.beat(agent, b, tasks)
}

// Leaving describes how an agent's process ended.
type Leaving struct {
	Failed bool   // not on purpose: the agent counts as dead, with Why as the reason
	Told   bool   // the agent's keeper tells the operator of it
	Once   bool   // a one-shot program under a name that steward made up: it stays listed only for leftShown
	Why    string // such as "exit code 1"
}

// Leave removes a process from the agent's record. When the last process leaves on purpose, the agent becomes idle and
// nothing is expected of it. When the last process failed, the agent counts as dead.
// See docs/decisions.md, "An agent that left on purpose is idle, not dead".
func (c *Client) Leave(ctx context.Context, agent string, process protocol.Identity, l Leaving, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		a := c.p.agents
		r, _, err := a.readRecord(agent)
		if err != nil || !r.lists(process) {
			return err // the process was never listed, or another process has taken its place
		}
		rest := c.living(without(r.processes(), process))
		if len(rest) == 0 {
			return leaveAgent(c.p, agent, l)
		}
		err = a.editRecord(agent, func(r *agentRecord) { r.setProcesses(rest...) })
		if err == nil && r.Kept {
			err = a.markKept(agent)
		}
		return err
	})
}

// leaveAgent records the end of an agent's last process. A failed process stays on record: its absence proves the death.
func leaveAgent(p *Project, agent string, l Leaving) error {
	why := folder.Line(l.Why, 300)
	err := p.agents.editRecord(agent, func(r *agentRecord) {
		r.Keeper, r.Kept = nil, false
		if l.Failed {
			r.Ending, r.Left, r.Told = why, "", l.Told
			return
		}
		r.Once = l.Once
		r.Ending, r.Left = "", cmp.Or(why, "it left")
		r.setProcesses()
	})
	if err != nil || l.Failed {
		return err
	}
	p.showCurrent(agent)
	_ = p.agents.beat(agent, Beat{Status: "idle"}, nil)
	stamp := jsonfile.FormatTime(p.Now)
	_, err = p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		if _, ok := decodeRegistry(o).agents[agent]; !ok {
			return nil, nil
		}
		return []jsonfile.Set{set("idle", "agents", agent, "status"), set(nil, "agents", agent, "pid"),
			set(stamp, "agents", agent, "last_seen"), set(stamp, "updated_at")}, nil
	})
	p.log.say("agent_left", "", agent, "", agent+" left: "+cmp.Or(why, "on purpose"))
	return err
}

// forgotten is the folder for the heartbeats of removed agents: nothing is lost.
const forgotten = own + "/forgotten"

// ForgetAgent removes an agent that is not alive: it removes the registry entry and steward's own record, and archives
// the heartbeat. It returns ErrTaken if a process of the agent lives, or if the agent wrote a heartbeat within the
// given time.
func (c *Client) ForgetAgent(ctx context.Context, agent string, fresh time.Duration, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		p.agents.read()
		_, found := p.agents.all()
		facts := found[agent]
		if facts == nil || !plainID(agent) {
			return ErrNoAgent
		}
		r, _, err := p.agents.readRecord(agent)
		if err != nil {
			return err
		}
		if living := c.living(r.processes()); len(living) > 0 {
			return fmt.Errorf("its process %d lives: %w", living[0].PID, ErrTaken)
		}
		a := &facts.agent
		ended := r.Left != "" || r.Ending != "" || a.Recorded == "error" || a.Beat.Booted
		if age := now.Sub(a.Beat.Last()); a.Beat.Mark != "" && !ended && age < fresh {
			return fmt.Errorf("its last heartbeat is %d s old: %w", int(age/time.Second), ErrTaken)
		}
		_, err = p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
			if agents, _ := o.Object("agents"); !agents.Has(agent) {
				return nil, nil
			}
			return []jsonfile.Set{jsonfile.Remove("agents", agent), set(jsonfile.FormatTime(now), "updated_at")}, nil
		})
		if err := folder.IgnoreMissing(err); err != nil {
			return err
		}
		if err := p.agents.archive(facts); err != nil {
			return err
		}
		if err := folder.IgnoreMissing(p.Root.Remove(recordPath(agent))); err != nil {
			return err
		}
		p.log.say("agent_forgotten", "", ourName, agent, agent+" was taken off the list")
		return nil
	})
}

// archive archives the files that show the agent.
func (a *agentDirs) archive(f *agentFacts) error {
	if len(f.beats) == 0 {
		return nil
	}
	if err := a.Root.MkdirAll(forgotten, 0o755); err != nil {
		return err
	}
	for _, h := range f.beats {
		for _, file := range []string{h.beat.path, h.current.path} {
			if file == "" {
				continue
			}
			to := fmt.Sprintf("%s/%s.%d", forgotten, strings.ReplaceAll(file, "/", "."), a.Now.UnixNano())
			if err := folder.IgnoreMissing(a.Root.Rename(file, to)); err != nil {
				return err
			}
		}
	}
	return nil
}
