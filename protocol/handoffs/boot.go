package handoffs

import (
	"context"
	"errors"
	"fmt"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ErrForeign means that the state file belongs to another tool, as its shape shows.
var ErrForeign = errors.New(".claude/state.json has another shape (neither locks nor agents): it belongs to another tool and is left alone")

// documentAgents are the agents that the document's state file names.
var documentAgents = [...]string{"planner", "builder", "reviewer", "fixer"}

// Prepare creates the folders and the state file (protocol 001, Handoff Storage and Shared State File) and enters the
// agent, as idle unless it is already working. In an existing state file, it writes only the agent's own status and
// last_active. Repeating it changes only the timestamp. It waits up to two seconds for a writer to finish.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !usable(b.Agent) || !plain(b.Agent) {
		return fmt.Errorf("boot: %q is not a valid agent name: it cannot be used as a file name", folder.Line(b.Agent, 100))
	}
	if err := p.Make(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	_, o, err := p.state.whole(ctx)
	there := !folder.Missing(err)
	if there && err == nil && !isOurs(o) {
		err = ErrForeign
	}
	if there && err != nil {
		return fmt.Errorf("boot: state: %w", err)
	}
	return p.Guarded(ctx, func() error {
		for _, at := range places {
			if err := p.Root.MkdirAll(at.dir(), 0o755); err != nil {
				return fmt.Errorf("boot: %w", err)
			}
		}
		if err := p.enter(b, there); err != nil {
			return fmt.Errorf("boot: state: %w", err)
		}
		return nil
	})
}

// stateDoc is a new state file, with its keys in the document's order.
type stateDoc struct {
	Version   string              `json:"schema_version"`
	Workflow  *struct{}           `json:"current_workflow"`
	Agent     *string             `json:"current_agent"`
	Last      *string             `json:"last_handoff"`
	Locks     struct{}            `json:"locks"`
	Iteration int                 `json:"iteration"`
	Agents    map[string]agentDoc `json:"agents"`
}

type agentDoc struct {
	Status string `json:"status"`
	Last   string `json:"last_active,omitzero"`
}

// enter writes the agent's entry.
func (p *Project) enter(b protocol.Boot, there bool) error {
	stamp := jsonfile.FormatTime(b.Now)
	if !there {
		doc := stateDoc{Version: "1.0.0", Iteration: 1, Agents: map[string]agentDoc{}}
		for _, name := range documentAgents {
			doc.Agents[name] = agentDoc{Status: "idle"}
		}
		doc.Agents[b.Agent] = agentDoc{Status: "idle", Last: stamp}
		text, err := jsonfile.Encode(doc)
		if err != nil {
			return err
		}
		if err := p.Root.Create(stateFile, text, 0o644); !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	set := func(key, value string) jsonfile.Set {
		return jsonfile.Set{Path: []string{"agents", b.Agent, key}, Value: value}
	}
	return p.state.edit(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		if !isOurs(o) {
			return nil, ErrForeign
		}
		sets := []jsonfile.Set{set("last_active", stamp)}
		state := decodeState(o)
		if a := state.agent(b.Agent); a == nil || !a.working() {
			sets = append(sets, set("status", "idle")) // until it is activated (protocol 001)
		}
		return sets, nil
	})
}
