package mailbox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// agentNames are the agents of the protocol, in all spellings.
var agentNames = []string{orchestrator, "planner", "designer", "tech-lead", "techLead", "team-lead", "teamLead", developer}

// boxNames are the mailboxes that boot creates.
var boxNames = []string{"to-developer.json", "to-team-lead.json", "to-tech-lead.json", "to-designer.json"}

// Prepare creates the protocol's files (protocol 003, File Locations) in the layout in use, or else in the program's
// layout. It leaves existing files unchanged, so running it twice has the effect of running it once.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !slices.Contains(agentNames, b.Agent) {
		return fmt.Errorf("boot: %q is not an agent of this protocol: it has orchestrator, planner, designer, tech-lead and developer", line(b.Agent, 60))
	}
	if err := p.Make(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	if err := p.Guarded(ctx, func() error { return p.lay(b.Now) }); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	return nil
}

func (p *Project) lay(now time.Time) error {
	p.refresh()
	s := p.living()
	for _, dir := range []string{s.mailDir(), logsDir} {
		if err := p.Root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	docs := []struct {
		file string
		doc  any
	}{{s.queueFile(), emptyQueue{Version: "1.0", Tasks: []any{}, Completed: []any{}, LastUpdated: now.UTC()}}, {s.boardFile(), emptyBoard(now)}}
	for _, name := range boxNames {
		docs = append(docs, struct {
			file string
			doc  any
		}{path.Join(s.mailDir(), name), emptyBox{Messages: []any{}}})
	}
	for _, d := range docs {
		text, err := jsonfile.Encode(d.doc)
		if err != nil {
			return err
		}
		if err := p.Root.Create(d.file, text, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	return nil
}

type emptyQueue struct {
	Version     string    `json:"version"`
	Tasks       []any     `json:"tasks"`
	Completed   []any     `json:"completed"`
	Current     *string   `json:"current"`
	LastUpdated time.Time `json:"lastUpdated"`
}

type emptyBox struct {
	Messages []any   `json:"messages"`
	LastRead *string `json:"lastRead"`
}

type idleRole struct {
	Status       string    `json:"status"`
	LastActivity time.Time `json:"lastActivity"`
}

type idleDeveloper struct {
	Status       string    `json:"status"`
	CurrentTask  *string   `json:"currentTask"`
	LastActivity time.Time `json:"lastActivity"`
}

type stopped struct {
	Running   bool    `json:"running"`
	PID       *int    `json:"pid"`
	StartedAt *string `json:"startedAt"`
}

type boardFile struct {
	Orchestrator stopped       `json:"orchestrator"`
	Planner      idleRole      `json:"planner"`
	Designer     idleRole      `json:"designer"`
	TechLead     idleRole      `json:"techLead"`
	Developer    idleDeveloper `json:"developer"`
}

func emptyBoard(now time.Time) boardFile {
	idle := idleRole{"idle", now.UTC()}
	return boardFile{Planner: idle, Designer: idle, TechLead: idle, Developer: idleDeveloper{Status: "idle", LastActivity: now.UTC()}}
}
