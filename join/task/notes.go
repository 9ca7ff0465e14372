package task

import (
	"os"
	"path/filepath"

	"github.com/livhana/steward/protocol/agentstatus"
)

// Notes returns warnings about a valid request that may still fail when it runs. Without them the user learns it only
// after the executor has tried twice.
func Notes(r agentstatus.Request, project string) []string {
	script, _ := r.Payload.Parameters["script_path"].(string)
	if r.Type != Execute || script == "" {
		return nil
	}
	if rel, err := filepath.Rel(project, script); err != nil || !filepath.IsLocal(rel) {
		return []string{script + " lies outside the project: a steward worker runs it only if [worker] programs or paths allows it"}
	}
	if _, err := os.Stat(script); err != nil && len(r.Coordination.After) == 0 {
		return []string{script + " is not there yet"}
	}
	return nil
}
