package agentstatus

import (
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// healthFresh is the maximum age of a daemon measurement (capacity.json) that a heartbeat may repeat.
const healthFresh = 30 * time.Second

// measuredBy marks health fields that repeat steward's own measurement. They describe the machine, which steward
// reports anyway, so they are not the agent's complaint. An agent that writes its own heartbeat omits the mark.
const measuredBy = "measured_by"

// healthEdits returns the edits that set a heartbeat's health fields (protocol 000, Heartbeat Schema) from the
// daemon's last measurement. A field without a recent measurement keeps its value; if it has no value, it becomes
// true, because the schema requires the field.
func (p *Project) healthEdits(heartbeat []byte, now time.Time) []jsonfile.Set {
	measured := jsonfile.Object{}
	if blob, err := p.Root.Read(capacityDoc, maxFile); err == nil {
		if o, err := jsonfile.Parse(blob.Data); err == nil {
			if at, found := o.Time("updated_at"); found.OK() && now.Sub(at).Abs() <= healthFresh {
				measured, _ = o.Object("health")
			}
		}
	}
	before := jsonfile.Object{}
	if o, err := jsonfile.Parse(heartbeat); err == nil {
		before, _ = o.Object("health")
	}
	var sets []jsonfile.Set
	short := false // true if any resource is short
	for _, word := range []string{"cpu_ok", "memory_ok", "disk_ok"} {
		ok, found := measured.Bool(word)
		if was, had := before.Bool(word); !found.OK() && had.OK() {
			short = short || !was
			continue
		}
		short = short || found.OK() && !ok
		sets = append(sets, jsonfile.Set{Path: []string{"health", word}, Value: ok || !found.OK()})
	}
	if short {
		return append(sets, jsonfile.Set{Path: []string{"health", measuredBy}, Value: ourName})
	}
	return append(sets, jsonfile.Remove("health", measuredBy))
}
