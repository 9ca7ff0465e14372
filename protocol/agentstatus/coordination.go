package agentstatus

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Followed is one task that an orchestrator has delegated, as active_coordination.json lists it (protocol 000, File
// Locations; protocol 000 defines no schema for the file).
type Followed struct {
	Task     string    `json:"task_id"`
	Target   string    `json:"target_agent"`
	Type     string    `json:"request_type"`
	State    string    `json:"state"` // pending, held, running, ended
	Blocking bool      `json:"blocking"`
	Since    time.Time `json:"since"`
}

// coordinationFile is active_coordination.json.
type coordinationFile struct {
	Agent   string     `json:"agent_name"`
	Updated time.Time  `json:"updated_at"`
	Tasks   []Followed `json:"active_tasks"`
}

// Follow adds a delegated task to the orchestrator's active_coordination.json, whether or not the orchestrator waits
// for it. It removes the tasks that have ended.
func (c *Client) Follow(ctx context.Context, agent string, f Followed, now time.Time) error {
	return c.coordinate(ctx, agent, f.Task, &f, now)
}

// Unfollow removes a task from the orchestrator's active_coordination.json.
func (c *Client) Unfollow(ctx context.Context, agent, task string, now time.Time) error {
	return c.coordinate(ctx, agent, task, nil, now)
}

func (c *Client) coordinate(ctx context.Context, agent, task string, f *Followed, now time.Time) error {
	if !plainID(agent) {
		return errors.New("no name for an agent")
	}
	return c.guarded(ctx, now, func() error {
		p := c.p
		p.seatAgents()
		desk := p.deskOf(agent)
		file := path.Join(desk, "active_coordination.json")
		doc := coordinationFile{Agent: agent, Updated: now.UTC()}
		o, _, err := p.Root.Load(file, maxFile)
		if err != nil && !unusable(err) {
			return err
		}
		for _, old := range followedIn(o) {
			if old.Task != task && plainID(old.Task) && !p.has(taskFile(old.Task, resultExt)) && !p.has(archivedFile(old.Task, resultExt)) {
				doc.Tasks = append(doc.Tasks, old)
			}
		}
		if f != nil {
			doc.Tasks = append(doc.Tasks, *f)
		}
		return p.put(file, doc, jsonfile.Volatile)
	})
}

func followedIn(o jsonfile.Object) []Followed {
	items, _ := o.Array("active_tasks")
	var list []Followed
	for _, item := range items {
		if e, p := item.Object(); p.OK() {
			f := Followed{Task: text(e, "task_id"), Target: text(e, "target_agent"), Type: text(e, "request_type"), State: text(e, "state"),
				Blocking: flag(e, "blocking")}
			f.Since, _ = e.Time("since")
			list = append(list, f)
		}
	}
	return list
}
