package agentstatus

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// identityFile is a process in one of steward's files. Start is a string: a JSON number would lose bits of the 64-bit
// token.
type identityFile struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
	Boot  string `json:"boot"`
	UID   int    `json:"uid"`
}

// identityOn returns the identity for a file; nil if it proves nothing.
func identityOn(id protocol.Identity) *identityFile {
	if !id.Proves() {
		return nil
	}
	return &identityFile{id.PID, strconv.FormatUint(id.Start, 10), id.Boot, id.UID}
}

func (f *identityFile) identity() (id protocol.Identity) {
	if f != nil {
		id = protocol.Identity{PID: f.PID, Boot: f.Boot, UID: f.UID}
		id.Start, _ = strconv.ParseUint(f.Start, 10, 64)
	}
	return id
}

// without returns the list without the process. It ignores the user id: a process may change its user and is still
// the same process.
func without(list []protocol.Identity, id protocol.Identity) []protocol.Identity {
	return slices.DeleteFunc(slices.Clone(list), func(other protocol.Identity) bool {
		return other.PID == id.PID && other.Start == id.Start && other.Boot == id.Boot
	})
}

// agentRecord is steward's own record of an agent: the processes that a steward command vouched for, and the
// operator's hold. PID, Start, Boot and UID are the newest process that speaks for the agent.
type agentRecord struct {
	Agent   string         `json:"agent"`
	PID     int            `json:"pid,omitzero"`
	Start   string         `json:"start,omitzero"`
	Boot    string         `json:"boot,omitempty"`
	UID     int            `json:"uid,omitzero"`
	Others  []identityFile `json:"others,omitempty"` // further processes, newest first: workers of one name
	Keeper  *identityFile  `json:"keeper,omitempty"` // the process that restarts the agent when it ends
	Worker  bool           `json:"worker,omitzero"`  // its processes are workers: they claim each task that they take
	Kept    bool           `json:"kept,omitzero"`    // the daemon writes its heartbeat while its process lives
	Left    string         `json:"left,omitempty"`   // how it left on purpose: nothing is expected of it
	Ending  string         `json:"ending,omitempty"` // how its last process failed
	Told    bool           `json:"told,omitzero"`    // the agent's keeper tells the operator of that failure
	Once    bool           `json:"once,omitzero"`    // it is a one-shot program under a name that steward made up
	Booted  string         `json:"booted,omitempty"` // the checksum of the heartbeat that boot wrote for it
	Session string         `json:"session,omitempty"`
	Held    string         `json:"held,omitempty"`
	At      time.Time      `json:"at"` // when the record was written
}

func decodeRecord(o jsonfile.Object) agentRecord {
	var r agentRecord
	folder.Fill(o, &r)
	r.Left, r.Ending = folder.Line(r.Left, 300), folder.Line(r.Ending, 300)
	return r
}

func (r *agentRecord) process() protocol.Identity {
	return (&identityFile{r.PID, r.Start, r.Boot, r.UID}).identity()
}

// processes lists all processes that speak for the agent, newest first.
func (r *agentRecord) processes() []protocol.Identity {
	var list []protocol.Identity
	if r.PID != 0 {
		list = append(list, r.process())
	}
	for i := range r.Others {
		list = append(list, r.Others[i].identity())
	}
	return list
}

// setProcesses replaces the record's processes with these, newest first.
func (r *agentRecord) setProcesses(list ...protocol.Identity) {
	r.PID, r.Start, r.Boot, r.UID, r.Others = 0, "", "", 0, nil
	for i, id := range list {
		if f := identityOn(id); i > 0 && f != nil {
			r.Others = append(r.Others, *f)
		} else if i == 0 {
			r.PID, r.Boot, r.UID = id.PID, id.Boot, id.UID
			if id.Start != 0 {
				r.Start = strconv.FormatUint(id.Start, 10)
			}
		}
	}
}

// lists reports whether the process speaks for the agent now.
func (r *agentRecord) lists(id protocol.Identity) bool {
	return id.Proves() && r.Left == "" && r.Ending == "" && len(without(r.processes(), id)) < len(r.processes())
}

// describe copies the record into the agent that policies read.
func (r *agentRecord) describe(a *protocol.Agent) {
	a.Process, a.Others, a.Held = r.process(), nil, r.Held
	if all := r.processes(); len(all) > 0 && len(r.Others) > 0 {
		a.Others = all[len(all)-len(r.Others):]
	}
	a.Keeper, a.Kept, a.Claims, a.Ending, a.Told = r.Keeper.identity(), r.Kept, r.Worker, r.Ending, r.Told
	if r.Left != "" {
		a.Idle, a.Left, a.PID = true, r.Left, 0
	}
}

// leftShown is how long a one-shot program stays listed after its end.
const leftShown = 10 * time.Minute

// over reports whether the agent is a one-shot program that left more than leftShown ago.
func (r *agentRecord) over(now time.Time) bool {
	return r.Once && r.Left != "" && now.Sub(r.At) > leftShown
}

// readRecord reads an agent's record. A missing or damaged record reads as empty.
func (f *statusFiles) readRecord(agent string) (r agentRecord, there bool, err error) {
	o, _, err := f.Root.Load(recordPath(agent), maxFile)
	if err == nil {
		return decodeRecord(o), true, nil
	}
	if unusable(err) {
		err = nil
	}
	return r, false, err
}

// editRecord rewrites an agent's record. It replaces an unreadable record with a new record.
func (f *statusFiles) editRecord(agent string, change func(*agentRecord)) error {
	if err := f.Root.Mkdir(agentsDir, 0o755); err != nil {
		return err
	}
	r, there, err := f.readRecord(agent)
	if err != nil {
		return err
	}
	r.Agent, r.At = "", time.Time{}
	old := r
	if change(&r); reflect.DeepEqual(r, old) && there {
		return nil
	}
	r.Agent, r.At = agent, f.Now.UTC()
	return f.Put(recordPath(agent), r)
}

// Claim records which agent works on a task. Worker took the task and Runner executes it: once both are proved dead,
// the run is over. Both may be zero, for an agent that works by hand. See docs/decisions.md, "A claim is a file, not a lock".
type Claim struct {
	Task    string            `json:"task_id"`
	Agent   string            `json:"agent"`
	Worker  protocol.Identity `json:"-"`
	Runner  protocol.Identity `json:"-"`
	Mark    string            `json:"mark,omitempty"` // identifies the run: STEWARD_RUN in its environment
	Attempt int               `json:"attempt"`
	At      time.Time         `json:"claimed_at"`
	Ended   bool              `json:"-"` // for an orphan: its task has a result nevertheless
}

func (k Claim) task() string { return k.Task }

// processes lists those identities of the claim that can prove a process dead.
func (k *Claim) processes() []protocol.Identity {
	var list []protocol.Identity
	for _, id := range []protocol.Identity{k.Worker, k.Runner} {
		if id.Proves() {
			list = append(list, id)
		}
	}
	return list
}

// claimFile is <id>.json in steward/claims.
type claimFile struct {
	Claim
	Worker *identityFile `json:"worker,omitempty"`
	Runner *identityFile `json:"runner,omitempty"`
}

func (k Claim) file() claimFile { return claimFile{k, identityOn(k.Worker), identityOn(k.Runner)} }

func decodeClaim(o jsonfile.Object) Claim {
	var f claimFile
	folder.Fill(o, &f)
	f.Claim.Worker, f.Claim.Runner = f.Worker.identity(), f.Runner.identity()
	return f.Claim
}

// claimOf reads a task's claim. It returns ErrNoTask if none exists.
func (f *statusFiles) claimOf(id string) (Claim, error) {
	if !plainID(id) {
		return Claim{}, ErrNoTask
	}
	o, _, err := f.Root.Load(claimPath(id), maxFile)
	if folder.Missing(err) {
		err = ErrNoTask
	}
	k := decodeClaim(o)
	k.Task = id
	return k, err
}

// claims lists all claims that can be read, newest first. Ended is set if the task has a result.
func (f *statusFiles) claims() []Claim {
	names, _, _ := f.Root.List(claimsDir) // no folder: no claims
	var list []Claim
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok {
			if k, err := f.claimOf(id); err == nil {
				k.Ended = f.over(id)
				list = append(list, k)
			}
		}
	}
	slices.SortFunc(list, func(a, b Claim) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Task, b.Task)) })
	return list
}

// activeClaims lists an agent's claims whose tasks have no result, newest first.
func (f *statusFiles) activeClaims(agent string) []Claim {
	return slices.DeleteFunc(f.claims(), func(k Claim) bool { return k.Ended || k.Agent != agent })
}
