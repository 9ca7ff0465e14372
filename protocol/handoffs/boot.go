package handoffs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ErrForeign: the state file belongs to another tool, as its shape shows.
var ErrForeign = errors.New(".claude/state.json has another shape (neither locks nor agents): it belongs to another tool and is left alone")

// crew are the agents that the document's state file names.
var crew = [...]string{"planner", "builder", "reviewer", "fixer"}

// Prepare lays the folders and the state file out (protocol 001, Handoff Storage and Shared State File) and enters the
// agent as active. In a state file that is there, only the agent's own status and last_active are written. Doing it
// twice leaves what doing it once leaves, but for the stamp. It waits up to two seconds for a writer to finish.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.now = b.Now
	if !usable(b.Agent) || !plain(b.Agent) {
		return fmt.Errorf("boot: %q is no name for an agent: it cannot be used as a file name", clean(b.Agent, 100))
	}
	top, err := jsonfile.Open(p.dir)
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	defer top.Close()
	if err := top.MkdirAll(Base, 0o755); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := p.open(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	there, err := p.wholeState(ctx)
	if err != nil {
		return fmt.Errorf("boot: state: %w", err)
	}
	return p.guarded(ctx, func() error {
		for _, at := range places {
			if err := p.root.MkdirAll(at.dir(), 0o755); err != nil {
				return fmt.Errorf("boot: %w", err)
			}
		}
		if err := p.enter(b, there); err != nil {
			return fmt.Errorf("boot: state: %w", err)
		}
		return nil
	})
}

// wholeState makes sure that the state file is ours, waiting for a writer who is at work; there is false when there is
// none.
func (p *Project) wholeState(ctx context.Context) (there bool, err error) {
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for range int(jsonfile.BadAfter / (50 * time.Millisecond)) {
		var blob jsonfile.Blob
		if blob, err = p.root.Read(stateFile, maxFile); isMissing(err) {
			return false, nil
		}
		var v jsonfile.Value
		if err == nil {
			if v, err = jsonfile.ParseValue(blob.Data); err == nil {
				if o, _ := v.Object(); !isOurs(o) {
					return true, ErrForeign
				}
				return true, nil
			}
		}
		if !errors.Is(err, jsonfile.ErrTorn) && !errors.Is(err, jsonfile.ErrBad) {
			return true, err
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-pause.C:
		}
	}
	return true, err
}

// stateDoc is a new state file, in the order of the document.
type stateDoc struct {
	Version   string           `json:"schema_version"`
	Workflow  *struct{}        `json:"current_workflow"`
	Agent     *string          `json:"current_agent"`
	Last      *string          `json:"last_handoff"`
	Locks     struct{}         `json:"locks"`
	Iteration int              `json:"iteration"`
	Agents    map[string]entry `json:"agents"`
}

type entry struct {
	Status string `json:"status"`
	Last   string `json:"last_active,omitzero"`
}

// enter writes the agent's entry.
func (p *Project) enter(b protocol.Boot, there bool) error {
	stamp := jsonfile.FormatTime(b.Now)
	if !there {
		doc := stateDoc{Version: "1.0.0", Iteration: 1, Agents: map[string]entry{}}
		for _, name := range crew {
			doc.Agents[name] = entry{Status: "idle"}
		}
		doc.Agents[b.Agent] = entry{Status: "active", Last: stamp}
		text, err := jsonfile.Encode(doc)
		if err != nil {
			return err
		}
		if err := p.root.Create(stateFile, text, 0o644); !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	set := func(key, value string) jsonfile.Set {
		return jsonfile.Set{Path: []string{"agents", b.Agent, key}, Value: value}
	}
	return p.editState(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		if !isOurs(o) {
			return nil, ErrForeign
		}
		return []jsonfile.Set{set("status", "active"), set("last_active", stamp)}, nil
	})
}
