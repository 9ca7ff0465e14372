package agentstatus

import (
	"context"
	"slices"
	"strings"
	"time"
)

// HeldBack lists the agent's held tasks, sorted by id. Errors: ErrNotInitialized, and errors of reading the folder.
func (c *Client) HeldBack(ctx context.Context, agent string, now time.Time) ([]Detail, error) {
	if err := c.open(now); err != nil {
		return nil, err
	}
	p := c.p
	p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir)
	var ids []string
	_, err := p.Root.Each(tasksDir, func(name []byte) {
		if id, kind, ok := parseTaskFile(string(name)); ok && kind == hasHeld && plainID(id) {
			ids = append(ids, id)
		}
	})
	slices.SortFunc(ids, strings.Compare)
	var list []Detail
	for _, id := range ids {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := p.fresh(id)
		if r, _ := e.asked(); r.target == "" || (directory{agent: true}).canonical(r.target) != agent {
			continue
		}
		if d := p.detail(e); d.State == StateHeld {
			list = append(list, d)
		}
	}
	return list, err
}
