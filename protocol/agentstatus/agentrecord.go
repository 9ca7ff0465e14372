package agentstatus

import (
	"path"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// agentRecord is steward's own record of an agent: the processes that a steward command vouched for, and the
// operator's hold.
type agentRecord struct {
	there   bool
	process protocol.Identity   // the newest process that speaks for the agent
	others  []protocol.Identity // further processes, newest first: workers of one name
	keeper  protocol.Identity   // the process that restarts the agent when it ends
	worker  bool                // its processes are workers: they claim each task that they take
	kept    bool                // the daemon writes its heartbeat while its process lives
	left    string              // how it left on purpose: nothing is expected of it
	ending  string              // how its last process failed
	told    bool                // the agent's keeper tells the operator of that failure
	once    bool                // it is a one-shot program under a name that steward made up
	at      time.Time           // when the card was written
	booted  string              // the checksum of the heartbeat that boot wrote for it
	session string
	held    string
}

// cardFile is the card's document on disk.
type cardFile struct {
	Agent   string         `json:"agent"`
	PID     int            `json:"pid,omitzero"`
	Start   string         `json:"start,omitzero"` // a 64-bit token: a JSON number would lose bits
	Boot    string         `json:"boot,omitempty"`
	UID     int            `json:"uid,omitzero"`
	Others  []identityFile `json:"others,omitempty"`
	Keeper  *identityFile  `json:"keeper,omitempty"`
	Worker  bool           `json:"worker,omitzero"`
	Kept    bool           `json:"kept,omitzero"`
	Left    string         `json:"left,omitempty"`
	Ending  string         `json:"ending,omitempty"`
	Told    bool           `json:"told,omitzero"`
	Once    bool           `json:"once,omitzero"`
	Booted  string         `json:"booted,omitempty"`
	Session string         `json:"session,omitempty"`
	Held    string         `json:"held,omitempty"`
	At      time.Time      `json:"at"`
}

// carry stores an identity on the card.
func (f *cardFile) carry(id protocol.Identity) {
	f.PID, f.Start, f.Boot, f.UID = id.PID, "", id.Boot, id.UID
	if id.Start != 0 {
		f.Start = strconv.FormatUint(id.Start, 10)
	}
}

// speak replaces the card's processes with these, newest first.
func (f *cardFile) speak(processes []protocol.Identity) {
	f.Others = nil
	f.carry(protocol.Identity{})
	for i, id := range processes {
		if i == 0 {
			f.carry(id)
		} else if d := identityOn(id); d != nil {
			f.Others = append(f.Others, *d)
		}
	}
}

// processes lists all processes that speak for the agent, newest first.
func (k *agentRecord) processes() []protocol.Identity {
	var list []protocol.Identity
	if k.process.PID != 0 {
		list = append(list, k.process)
	}
	return append(list, k.others...)
}

// lists reports whether the process speaks for the agent now.
func (k *agentRecord) lists(id protocol.Identity) bool {
	in := slices.ContainsFunc(k.processes(), func(other protocol.Identity) bool { return sameProcess(id, other) })
	return in && id.Proves() && k.left == "" && k.ending == ""
}

func decodeCard(o jsonfile.Object) agentRecord {
	k := agentRecord{process: identityFrom(o), session: text(o, "session"), booted: text(o, "booted"), held: text(o, "held"), kept: flag(o, "kept"), worker: flag(o, "worker"), told: flag(o, "told"),
		left: folder.Line(text(o, "left"), 300), ending: folder.Line(text(o, "ending"), 300)}
	k.once = flag(o, "once")
	k.at, _ = o.Time("at")
	keeper, _ := o.Object("keeper")
	k.keeper = identityFrom(keeper)
	others, _ := o.Array("others")
	for _, item := range others {
		if other, p := item.Object(); p.OK() {
			k.others = append(k.others, identityFrom(other))
		}
	}
	return k
}

// onDisk returns the card's document as it would be written unchanged.
func (k *agentRecord) onDisk() cardFile {
	f := cardFile{Worker: k.worker, Kept: k.kept, Left: k.left, Ending: k.ending, Told: k.told, Once: k.once, Booted: k.booted, Session: k.session, Held: k.held, Keeper: identityOn(k.keeper)}
	f.speak(k.processes())
	return f
}

func cardPath(agent string) string { return path.Join(agentsDir, agent+".json") }

// editCard rewrites steward's own card of an agent. It replaces an unreadable card with a new card.
func (p *Project) editCard(agent string, change func(*cardFile)) error {
	if err := p.Root.Mkdir(agentsDir, 0o755); err != nil {
		return err
	}
	k, err := p.readCard(agent)
	if err != nil {
		return err
	}
	f, old := k.onDisk(), k.onDisk()
	if change(&f); reflect.DeepEqual(f, old) && k.there {
		return nil
	}
	f.Agent, f.At = agent, p.Now.UTC()
	return p.put(cardPath(agent), f)
}

// readCard reads an agent's card. A missing or damaged card reads as empty.
func (p *Project) readCard(agent string) (agentRecord, error) {
	o, _, err := p.Root.Load(cardPath(agent), maxFile)
	switch {
	case err == nil:
		k := decodeCard(o)
		k.there = true
		return k, nil
	case unusable(err):
		return agentRecord{}, nil
	}
	return agentRecord{}, err
}

// without returns the list without the process.
func without(list []protocol.Identity, id protocol.Identity) []protocol.Identity {
	return slices.DeleteFunc(slices.Clone(list), func(other protocol.Identity) bool { return sameProcess(id, other) })
}

// sameProcess compares processes. It ignores the user id: a process may change its user and is still the same
// process.
func sameProcess(a, b protocol.Identity) bool {
	return a.PID == b.PID && a.Start == b.Start && a.Boot == b.Boot
}

// leftShown is how long a one-shot program stays listed after its end.
const leftShown = 10 * time.Minute

// over reports whether the agent is a one-shot program that left more than leftShown ago.
func (k *agentRecord) over(now time.Time) bool {
	return k.once && k.left != "" && now.Sub(k.at) > leftShown
}
