package handoffs

import (
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// claimsDir has one file for each handoff that an agent took through steward, and for each action that was cut short. The
// document has no place for either.
const claimsDir = "steward/claims"

// claimVersion is the version of these files.
const claimVersion = 1

// claimRecord says who works on a handoff, and how far the work is.
type claimRecord struct {
	Version int                `json:"version"`
	Handoff string             `json:"handoff"`
	Agent   string             `json:"agent,omitzero"`
	Worker  *protocol.Identity `json:"worker,omitzero"` // nil if none is known
	At      time.Time          `json:"at"`
	Percent float64            `json:"percent,omitzero"`
	Step    string             `json:"step,omitzero"`
	Stepped time.Time          `json:"stepped,omitzero"` // time of Percent and Step
	Intent  *intent            `json:"intent,omitzero"`  // an action on the handoff that is not complete

	sum string
}

// intent is an action on a handoff: everything that it writes. It is recorded before the first write, so that another
// process can complete it after a crash.
// See docs/decisions.md, "An action of protocol 001 is recorded before its first write".
type intent struct {
	At       time.Time                  `json:"at"`
	Accept   bool                       `json:"accept,omitzero"`   // it takes the handoff: until the rename it may also be dropped
	Messages []json.RawMessage          `json:"messages,omitzero"` // to create, in this order
	Box      string                     `json:"box,omitzero"`      // where the handoff goes; "" leaves it where it is
	Status   string                     `json:"status,omitzero"`   // of the handoff; "" leaves it as it is
	Set      map[string]json.RawMessage `json:"set,omitzero"`      // further keys of the handoff
	Close    []string                   `json:"close,omitzero"`    // further messages that go to completed/
	State    stateChange                `json:"state,omitzero"`
	Event    string                     `json:"event,omitzero"` // of the agent, in the log
	Why      string                     `json:"why,omitzero"`   // the text of the event
}

// claims reads and writes the claim records.
type claims struct {
	*source
	listing folder.Listing
	records map[string]claimRecord // by handoff
}

// read brings the records up to date. It costs one stat if nothing is new. A record that cannot be used is a fault, and
// proves nothing about its handoff.
func (k *claims) read() {
	if !k.listing.Read(k.Folder, claimsDir) {
		return
	}
	k.records = map[string]claimRecord{}
	k.Patience.ClearBelow(claimsDir)
	for _, name := range k.listing.Names {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok || !usable(id) {
			continue
		}
		file := path.Join(claimsDir, name)
		o, blob, err := k.Root.Load(file, maxFile)
		if err == nil {
			err = o.Newer(claimVersion)
		}
		c := claimRecord{sum: string(blob.Sum)}
		if err == nil {
			err = jsonfile.Decode(blob.Data, &c)
		}
		if err == nil && c.Handoff == id {
			k.records[id] = c
		} else if err != nil && !folder.Missing(err) {
			k.Patience.Unreadable(file, err)
			k.listing = folder.Listing{} // read it again at the next scan
		}
	}
}

func (k *claims) put(c claimRecord) error {
	if err := k.Root.Mkdir(claimsDir, 0o755); err != nil {
		return err
	}
	c.Version = claimVersion
	if err := (folder.Files{Folder: k.Folder}).Put(path.Join(claimsDir, c.Handoff+".json"), c); err != nil {
		return err
	}
	k.records[c.Handoff] = c
	return nil
}

func (k *claims) remove(id string) error {
	delete(k.records, id)
	return folder.IgnoreMissing(k.Root.Remove(path.Join(claimsDir, id+".json")))
}

// nearby is how long after the record of its acceptance a handoff may arrive in accepted/ to count as taken by that
// record's worker, if a crash came before the record was confirmed.
const nearby = 5 * time.Second

// worker returns the process that works on an accepted handoff; nil if none is known.
func (c *claimRecord) worker(h *handoff) *protocol.Identity {
	if c.Intent != nil && c.Intent.Accept && arrived(h.Stamp).Sub(c.Intent.At).Abs() > nearby {
		return nil // another client may have taken it since the crash
	}
	return c.Worker
}
