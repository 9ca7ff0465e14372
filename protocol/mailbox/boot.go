package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// agentNames are the agents of the protocol, in all spellings.
var agentNames = []string{orchestratorName, "planner", "designer", "tech-lead", "techLead", "team-lead", "teamLead", developer}

// boxNames are the mailboxes that boot creates.
var boxNames = []string{"to-developer.json", "to-team-lead.json", "to-tech-lead.json", "to-designer.json"}

// The files that boot creates. NOW stands for the time.
const (
	emptyQueue = `{
  "version": "1.0",
  "tasks": [],
  "completed": [],
  "current": null,
  "lastUpdated": "NOW"
}
`
	idleStatus = `{
  "orchestrator": {
    "running": false,
    "pid": null,
    "startedAt": null
  },
  "planner": {
    "status": "idle",
    "lastActivity": "NOW"
  },
  "designer": {
    "status": "idle",
    "lastActivity": "NOW"
  },
  "techLead": {
    "status": "idle",
    "lastActivity": "NOW"
  },
  "developer": {
    "status": "idle",
    "currentTask": null,
    "lastActivity": "NOW"
  }
}
`
	emptyBox = `{
  "messages": [],
  "lastRead": null
}
`
)

// Prepare creates the protocol's files (protocol 003, File Locations) in the layout in use, or else in the program's
// layout. It leaves existing files unchanged, so running it twice has the effect of running it once.
func (p *Project) Prepare(ctx context.Context, b protocol.Boot) error {
	if !slices.Contains(agentNames, b.Agent) {
		return fmt.Errorf("boot: %q is not an agent of this protocol: it has orchestrator, planner, designer, tech-lead and developer", line(b.Agent, 60))
	}
	return p.Boot(ctx, b.Now, p.makeFiles)
}

func (p *Project) makeFiles() error {
	p.readFiles()
	used, _ := p.inUse()
	for _, dir := range []string{used.mailDir(), logsDir} {
		if err := p.Root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	docs := [][2]string{{used.queueFile(), emptyQueue}, {used.boardFile(), idleStatus}}
	for _, name := range boxNames {
		docs = append(docs, [2]string{used.boxFile(name), emptyBox})
	}
	for _, doc := range docs {
		text := strings.ReplaceAll(doc[1], "NOW", jsonfile.FormatTime(p.Now))
		if err := p.Root.Create(doc[0], []byte(text), 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	return nil
}
