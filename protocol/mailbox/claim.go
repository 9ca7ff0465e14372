package mailbox

import (
	"path"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// claimsDir holds one file per claim: steward's record that an agent has a task. The document has no place for the process
// that works on a task.
const claimsDir = own + "/claims"

const maxClaim = 64 << 10

// workClaim is an agent's claim to a task. It is valid as long as the task's updatedAt is the one it states: any other
// program that changes the task's state changes that time.
// See docs/decisions.md, "A claim of protocol 003 is bound to the task's updatedAt".
type workClaim struct {
	Version int       `json:"version"`
	Task    string    `json:"task_id"`
	Agent   string    `json:"agent"`
	Taken   time.Time `json:"updated_at"`
	// Worker is the process that works on the task; zero if none is recorded.
	Worker protocol.Identity `json:"worker,omitzero"`
	// Reports is the number of completion reports about the task at that time: they belong to earlier attempts.
	Reports int `json:"reports,omitzero"`
	// Waiting: the task was assigned to the agent, which has not accepted it yet.
	Waiting bool `json:"waiting,omitzero"`
}

func claimFile(id string) string { return path.Join(claimsDir, id+".json") }

func decodeClaim(doc []byte) (c workClaim, err error) { return c, jsonfile.Decode(doc, &c) }

// readClaims reads the claims to the open tasks. A task without a claim costs one stat.
func (r *reader) readClaims() {
	used, _ := r.inUse()
	known := r.claims
	r.claims = map[string]*jsonfile.Reading[workClaim]{}
	for i := range used.queue.Value.tasks {
		t := &used.queue.Value.tasks[i]
		if t.status != inProgress && t.status != awaitingReview {
			continue
		}
		k := known[t.id]
		if k == nil {
			k = &jsonfile.Reading[workClaim]{}
		}
		jsonfile.LoadText(r.Root, &r.Patience, k, claimFile(t.id), maxClaim, decodeClaim)
		r.claims[t.id] = k
	}
}

// claimTo returns the valid claim to a task; nil if none exists.
func (r *reader) claimTo(t *record) *workClaim {
	k := r.claims[t.id]
	if k == nil || !k.Good || k.Value.Task != t.id || !k.Value.Taken.Equal(t.updatedAt.At) {
		return nil
	}
	return &k.Value
}

// held reports whether the agent of a claim is at work: its process is not proved to be gone, or it has none and its time
// is not over.
func (r *reader) held(c *workClaim) bool {
	switch {
	case c == nil || c.Waiting:
		return false
	case c.Worker.Proves():
		return proc.Check(proc.Identity(c.Worker)) != proc.Gone
	case c.Agent == developer:
		return r.Now.Before(c.Taken.Add(r.opts.Developer))
	}
	return r.Now.Before(c.Taken.Add(r.opts.Lead))
}

// putClaim records a claim over any earlier one to the same task.
func (w writer) putClaim(c workClaim) error {
	c.Version = 1
	if err := w.Root.Mkdir(claimsDir, 0o755); err != nil {
		return err
	}
	return folder.Files{Folder: w.Folder}.Put(claimFile(c.Task), c)
}

// dropClaim removes the claim to a task.
func (w writer) dropClaim(id string) error {
	return folder.IgnoreMissing(w.Root.Remove(claimFile(id)))
}
