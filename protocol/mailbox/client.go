package mailbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Client takes part in protocol 003 as a user, as the team lead or as the developer. The last write of an action is the
// one that counts: after a crash before it, the action can be repeated.
//
// The orchestrator program rewrites queue.json and status.json as a whole and locks nothing. While it lives, a Client only
// appends messages, because the program reads a mailbox when the agent that writes to it has ended. All else is refused.
// See docs/decisions.md, "While the 003 orchestrator lives, steward writes messages only".
type Client struct{ editor }

var _ protocol.Participant = (*Client)(nil)

// Connect returns a Client for the project at dir (absolute). It reads nothing yet.
func Connect(dir string, opts Options) *Client {
	return &Client{editor{writer: writer{newReader(dir, opts)}}}
}

// open opens the folder and reads all files, while none of them is half-written.
func (c *Client) open(ctx context.Context, now time.Time) error {
	c.docs = map[string]jsonfile.Object{}
	if _, there := c.Scan(ctx, protocol.ScanOrder{Now: now}); !there {
		if err := c.Open(); folder.Missing(err) {
			return fmt.Errorf("%s: %w", Base, protocol.ErrAbsent)
		} else if err != nil {
			return err
		}
	}
	return folder.Whole(ctx, c.readWhole)
}

// readWhole reads all files. It returns the error of the first that cannot be read.
func (c *Client) readWhole() error {
	c.read()
	used, _ := c.inUse()
	files := []string{used.queueFile(), c.status().file}
	for name := range used.boxes {
		files = append(files, used.boxFile(name))
	}
	for _, file := range files {
		if c.Patience.Has(file) {
			c.Patience.Clear(file)
			_, _, err := c.Root.Load(file, maxQueue)
			return cmp.Or(err, fmt.Errorf("read %s: %w", c.Shown(file), jsonfile.ErrTorn))
		}
	}
	if !used.queue.There {
		return fmt.Errorf("%s is missing; steward boot developer --protocol %s makes it", c.Shown(used.queueFile()), Name)
	}
	return nil
}

// act runs an action while no other steward process writes.
func (c *Client) act(ctx context.Context, now time.Time, do func() (protocol.Receipt, error)) (done protocol.Receipt, err error) {
	if err := c.open(ctx, now); err != nil {
		return done, err
	}
	err = c.Guarded(ctx, func() error {
		if err := c.readWhole(); err != nil {
			return err
		}
		done, err = do()
		return err
	})
	return done, err
}

// roleOf returns the agent's name as status.json implies it. The lead has several spellings; the user acts as the lead.
func roleOf(agent string) (string, error) {
	switch agent {
	case "tech-lead", "techLead", "team-lead", "teamLead", "user", "human":
		return lead, nil
	}
	if slices.Contains(agentNames, agent) {
		return agent, nil
	}
	return "", folder.Refuse("%q is not an agent of this protocol: it has orchestrator, planner, designer, team-lead and developer", line(agent, 60))
}

// Join updates an agent's entry in status.json. While the orchestrator lives it does nothing: the orchestrator keeps the
// entries of its agents, and its own.
func (c *Client) Join(ctx context.Context, a protocol.AgentRun, now time.Time) error {
	working := map[string]string{developer: "implementing", lead: "analyzing"}
	return c.show(ctx, a, now, func(role string) (string, any) {
		if a.Task == "" {
			return "idle", nil
		}
		return working[role], a.Task
	})
}

// Leave shows the agent as idle.
func (c *Client) Leave(ctx context.Context, a protocol.AgentRun, now time.Time) error {
	return c.show(ctx, a, now, func(string) (string, any) { return "idle", nil })
}

func (c *Client) show(ctx context.Context, a protocol.AgentRun, now time.Time, state func(role string) (string, any)) error {
	role, _ := roleOf(a.Agent)
	if role != developer && role != lead {
		return nil // status.json has no entry for it, or it is the program's own
	}
	_, err := c.act(ctx, now, func() (done protocol.Receipt, err error) {
		if c.orchestrator.lives() {
			return done, nil
		}
		status, task := state(role)
		for _, r := range c.status().Value.roles {
			if r.name == role && r.status == "reviewing" && status == "analyzing" {
				status = "" // Accept knows better which of the two it is
			}
		}
		return done, c.sign(role, status, task)
	})
	return err
}
