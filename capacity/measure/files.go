package measure

import (
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
)

// ownNeeds is how many free descriptors steward needs to scan, write and answer.
const ownNeeds = 16

func (g *Gauge) addFiles(load *capacity.Load, now time.Time) {
	f, err := readFiles(g)
	load.Files = g.note(capacity.DimFiles)(f.used(), err)
	g.addOwn(load, now)
	if err != nil {
		g.table = trend{}
		return
	}
	open := int64(f.open)
	load.OpenFiles = &open
	g.table.add(f, now)
	g.table.count(load, func() string { return "the files open on this machine near their limit fast" })
	for _, r := range g.scan.worst(g.proc, now) {
		r.files.count(load, func() string {
			return fmt.Sprintf("%s (pid %d) nears its limit of %d open files", printable(r.name()), r.pid, r.files.limit)
		})
	}
	g.inotify.count(load)
}

// addOwn counts steward's own descriptors: without any it can neither scan nor report. They count as full while there
// is still room for its work.
func (g *Gauge) addOwn(load *capacity.Load, now time.Time) {
	f, ok := ownFiles(g.proc)
	if !ok {
		g.own = trend{}
		return
	}
	limit := f.limit
	f.limit = max(limit, ownNeeds+1) - ownNeeds
	g.own.add(f, now)
	g.own.count(load, func() string { return fmt.Sprintf("steward itself nears its limit of %d open files", limit) })
}
