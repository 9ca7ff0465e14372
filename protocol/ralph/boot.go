package ralph

import (
	"context"
	"errors"
	"fmt"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// emptyKanban is a kanban without tasks. The program's own check requires the heading in capitals.
const emptyKanban = "# Kanban\n\n## TASKS\n"

// Prepare creates the folders of the document's layout, and an empty kanban if there is none. It changes neither an
// existing kanban nor any other file. Booting twice changes nothing.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	p.Begin(b.Now)
	if !jsonfile.PlainName(b.Agent) {
		return fmt.Errorf("boot: %q is not a name for an agent: it cannot be used as a file name", b.Agent)
	}
	if err := p.Make(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	return p.Guarded(ctx, p.lay)
}

func (p *Project) lay() error {
	for _, dir := range []string{workersDir, logsDir, orchestratorDir} {
		if err := p.Root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("boot: %w", err)
		}
	}
	if _, err := p.Root.Stat(kanbanFile); !folder.Missing(err) {
		return err
	}
	if err := p.Root.Create(kanbanFile, []byte(emptyKanban), 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return fmt.Errorf("boot: %w", err)
	}
	return nil
}
