package agentstatus

import (
	"context"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Orphans lists the agent's claims whose processes are proved dead. Ended is set if the task has a result
// nevertheless: a crash came between the result and the removal of the claim, or another client wrote the result.
// Processes left over from such a run carry the Mark.
func (c *Client) Orphans(ctx context.Context, agent string, now time.Time) ([]Claim, error) {
	var list []Claim
	err := c.guarded(ctx, now, func() error {
		files, _, err := c.p.Root.List(claimsDir)
		if err != nil {
			return nil // no claims
		}
		for _, name := range files {
			id, ok := strings.CutSuffix(name, ".json")
			if k, err := c.p.claimOf(id); ok && err == nil && k.Agent == agent {
				k.Ended = c.p.over(id)
				switch {
				case k.Ended && len(k.processes()) == 0:
					_ = c.p.Root.Remove(claimFile(id)) // the agent worked by hand: no process is left
				case c.abandoned(k):
					list = append(list, k)
				}
			}
		}
		return nil
	})
	return list, err
}

// over reports whether the task has a result and was not requested again.
func (p *Project) over(id string) bool {
	return p.has(taskFile(id, resultExt)) || p.has(archivedFile(id, resultExt)) && !p.has(taskFile(id, requestExt)) && !p.has(taskFile(id, heldExt))
}

// Forget removes an orphaned claim whose task has ended.
func (c *Client) Forget(ctx context.Context, k Claim, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		if now, err := c.p.claimOf(k.Task); err != nil || now.Mark != k.Mark || !c.abandoned(now) || !c.p.over(k.Task) {
			return nil
		}
		return c.p.Root.Remove(claimFile(k.Task))
	})
}

// abandoned reports whether it is proved that no process runs the claimed task any more.
func (c *Client) abandoned(k Claim) bool {
	processes := k.processes()
	for _, id := range processes {
		if !c.dead(id) {
			return false
		}
	}
	return len(processes) > 0
}

// Conclude ends an orphaned task with AGENT_LOST where no daemon does.
func (c *Client) Conclude(ctx context.Context, k Claim, why string, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		e := c.p.fresh(k.Task)
		if e.result.There || !e.claim.Good || e.claim.Value.Mark != k.Mark || !c.abandoned(e.claim.Value) {
			return ErrTaken
		}
		change := protocol.Change{Verb: protocol.VerbConclude, Reason: protocol.ReasonLost, Agent: k.Agent, Code: "AGENT_LOST", Why: why,
			Subject: protocol.Subject{Kind: protocol.KindTask, ID: k.Task}}
		if err := c.p.synthesize(e, change, map[string]any{"may_have_run_twice": false, "lost_agent": k.Agent}); err != nil {
			return err
		}
		c.p.say("task_failed", k.Task, k.Agent, "", why)
		_ = c.p.Root.Remove(claimFile(k.Task))
		c.p.showCurrent(k.Agent)
		return nil
	})
}

// showCurrent writes current_task.json: the agent's newest claimed task, and all its claimed tasks. Protocol 000
// defines no schema for the file; its name tells what pollers look for in it.
func (p *Project) showCurrent(agent string) {
	type current struct {
		TaskID  *string   `json:"task_id"`
		Agent   string    `json:"agent_name"`
		Started time.Time `json:"started_at,omitzero"`
		Attempt int       `json:"attempt,omitzero"`
		Tasks   []string  `json:"active_tasks"`
		Updated time.Time `json:"updated_at"`
	}
	doc := current{Agent: agent, Updated: p.Now}
	for _, k := range p.claims() {
		if k.Agent != agent {
			continue
		}
		if doc.TaskID == nil {
			doc.TaskID, doc.Started, doc.Attempt = &k.Task, k.At, k.Attempt
		}
		doc.Tasks = append(doc.Tasks, k.Task)
	}
	p.seatAgents()
	desk := p.deskOf(agent)
	_ = p.put(currentFile(desk), doc, jsonfile.Volatile) // for display only: the claim decides
}

// seatAgents rereads the agents, to find which folder belongs to which agent.
func (p *Project) seatAgents() {
	p.probe(".", agentsDir, sharedDir)
	p.readAgents(nil)
}
