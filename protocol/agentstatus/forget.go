package agentstatus

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ErrNoAgent means that no file names the agent.
var ErrNoAgent = errors.New("no such agent")

// forgotten is the folder for the heartbeats of removed agents: nothing is lost.
const forgotten = own + "/forgotten"

// ForgetAgent removes an agent that is not alive: it removes the registry entry and steward's own card, and archives
// the heartbeat. It returns ErrTaken if a process of the agent lives, or if the agent wrote a heartbeat within the
// given time.
func (c *Client) ForgetAgent(ctx context.Context, agent string, fresh time.Duration, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		p.readAgents(nil)
		_, found := p.roster()
		s := found[agent]
		if s == nil || !plainID(agent) {
			return ErrNoAgent
		}
		if err := c.mayForget(s, fresh); err != nil {
			return err
		}
		_, err := p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
			if agents, _ := o.Object("agents"); !agents.Has(agent) {
				return nil, nil
			}
			return []jsonfile.Set{jsonfile.Remove("agents", agent), {Path: []string{"updated_at"}, Value: jsonfile.FormatTime(now)}}, nil
		})
		if err != nil && !folder.Missing(err) {
			return err
		}
		if err := p.putAside(s); err != nil {
			return err
		}
		if err := p.Root.Remove(cardPath(agent)); err != nil && !folder.Missing(err) {
			return err
		}
		p.say("agent_forgotten", "", ourName, agent, agent+" was taken off the list")
		return nil
	})
}

// mayForget returns an error if the agent is alive.
func (c *Client) mayForget(s *sitting, fresh time.Duration) error {
	a := &s.agent
	k, err := c.p.readCard(a.Name)
	if err != nil {
		return err
	}
	for _, id := range k.processes() {
		if id.Proves() && !c.dead(id) {
			return fmt.Errorf("its process %d lives: %w", id.PID, ErrTaken)
		}
	}
	ended := k.left != "" || k.ending != "" || a.Recorded == "error" || a.Beat.Booted
	if age := c.p.Now.Sub(a.Beat.Last()); a.Beat.Mark != "" && !ended && age < fresh {
		return fmt.Errorf("its last heartbeat is %d s old: %w", int(age/time.Second), ErrTaken)
	}
	return nil
}

// putAside archives the files that show the agent.
func (p *Project) putAside(s *sitting) error {
	if len(s.beats) == 0 {
		return nil
	}
	if err := p.Root.MkdirAll(forgotten, 0o755); err != nil {
		return err
	}
	for _, b := range s.beats {
		files := []string{b.file}
		if b.current != nil {
			files = append(files, currentFile(path.Dir(b.file)))
		}
		for _, file := range files {
			aside := fmt.Sprintf("%s/%s.%d", forgotten, strings.ReplaceAll(file, "/", "."), p.Now.UnixNano())
			if err := p.Root.Rename(file, aside); err != nil && !folder.Missing(err) {
				return err
			}
		}
	}
	return nil
}
