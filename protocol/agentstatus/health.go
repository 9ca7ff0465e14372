package agentstatus

import (
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// healthFresh is how old the daemon's measurement (capacity.json) may be for a heartbeat to repeat it.
const healthFresh = 30 * time.Second

// measuredBy marks health words that repeat steward's own measurement. They speak of the machine, which steward shows
// anyway, so they are no complaint of the agent's. An agent that beats itself writes without the mark.
const measuredBy = "measured_by"

// healthEdits are the health words of a heartbeat (protocol 000, Heartbeat Schema) by the daemon's last measurement. A
// word that nothing recent speaks of keeps its value; where it has none it is true, for the schema requires it.
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
	short := false // of some resource
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
