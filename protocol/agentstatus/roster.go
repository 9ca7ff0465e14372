package agentstatus

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// sitting is everything that the files say about one agent.
type sitting struct {
	agent  protocol.Agent
	file   string // the file that named the agent first
	issues []issue
	beats  []sitter
	named  map[string]time.Time // by task: when the newest file that names the task was written
}

// roster builds the agents from all files, by name.
func (p *Project) roster() (directory, map[string]*sitting) {
	known, found := directory{}, map[string]*sitting{}
	at := func(name, file string) *sitting {
		known[name] = true
		if found[name] == nil {
			found[name] = &sitting{agent: protocol.Agent{Name: name}, file: file}
		}
		return found[name]
	}
	if reg := &p.bench.registry; reg.Good {
		for name, m := range reg.Value.agents {
			a := &at(name, registry).agent
			a.Recorded, a.PID, a.Registered = m.status, m.pid, m.seen
			a.Ref = protocol.Ref{Path: registry, Sum: m.status}
		}
	}
	for file, r := range p.bench.cards {
		if r.Good {
			a := &at(strings.TrimSuffix(strings.TrimPrefix(file, agentsDir+"/"), ".json"), file).agent
			r.Value.describe(a)
		}
	}
	list := p.sitters()
	claimed := map[string]bool{}
	for _, s := range list {
		claimed[s.label] = true
	}
	for _, s := range list {
		name := known.canonical(s.label)
		if name != s.label && claimed[name] && aliases[fold(s.label)] != name {
			name = s.label // both spellings have a heartbeat: treat them as two agents
		}
		sits := at(name, s.file)
		sits.beats = append(sits.beats, s)
	}
	for name, s := range found {
		p.seatDown(s)
		if r := p.bench.cards[cardPath(name)]; r != nil && r.Good && r.Value.booted != "" {
			s.agent.Beat.Booted = strings.HasPrefix(s.agent.Beat.Mark, r.Value.booted+"-")
		}
	}
	return known, found
}

// seatDown merges an agent's heartbeats. If there are several, the newest counts.
func (p *Project) seatDown(s *sitting) {
	a := &s.agent
	s.named = map[string]time.Time{}
	note := func(task string, written time.Time) {
		if s.named[task].Before(written) {
			s.named[task] = written
		}
		if !slices.Contains(a.Tasks, task) {
			a.Tasks = append(a.Tasks, task)
		}
	}
	var newest *jsonfile.Reading[beat]
	for _, b := range s.beats {
		if !b.beat.Good {
			continue
		}
		s.issues = append(s.issues, b.beat.Value.issues...)
		if beat := p.beatOf(b.beat); newest == nil || beat.Last().After(a.Beat.Last()) {
			newest, a.Beat = b.beat, beat
		}
	}
	if newest != nil {
		v := &newest.Value
		a.Status, a.Complaint, a.Used = v.status, v.complaint, v.used
		for _, task := range v.tasks {
			note(task, newest.Stamp.ModTime())
		}
	}
	for _, b := range s.beats {
		if b.current != nil && b.current.Good && b.current.Value.task != "" {
			note(b.current.Value.task, b.current.Stamp.ModTime())
		}
	}
	// An error entry's time was set by the process that marked it, not by the agent.
	if a.Recorded == "error" || a.Registered.After(p.Now) || a.Beat.Mark != "" && a.Registered.Sub(a.Beat.Last()) < registeredLate {
		a.Registered = time.Time{}
	}
}

// registeredLate is how much newer than the heartbeat a registration must be to mean a new start: clients refresh
// both within moments of each other. A registration in the future does not count: it would mean a new start at every
// scan.
const registeredLate = time.Minute

func (p *Project) beatOf(r *jsonfile.Reading[beat]) protocol.Beat {
	at := r.Value.at
	if r.Value.zoneless {
		at = at.Add(jsonfile.ZoneSlack)
	}
	return protocol.Beat{Mark: fmt.Sprintf("%s-%d", r.Sum, r.Stamp.Inode), Touched: p.capped(r.Stamp.ModTime().UTC()), At: p.capped(at),
		Stated: r.Value.at, Zoneless: r.Value.zoneless, Kept: r.Value.kept, Fresh: r.Value.fresh}
}

// signs holds an agent's other signs of life, as of the last scan, and the fingerprint of the last new one. A sign
// that vanishes does not count: steward itself archives what an attempt left.
type signs struct {
	states map[string]state
	sum    string
}

// state is the state of a sign's source.
type state struct{ mtime, size int64 }

// watchSigns updates the agents' fingerprints. It runs after the tasks are described, which sets the agent that each
// progress file belongs to.
func (p *Project) watchSigns(known directory, agents map[string]*sitting) {
	now := make(map[string]map[string]state, len(agents))
	put := func(agent, source string, s state) {
		if now[agent] == nil {
			now[agent] = map[string]state{}
		}
		now[agent][source] = s
	}
	for source, n := range p.log.lines {
		if n > 0 {
			put(known.canonical(source), "log "+source, state{size: int64(n)})
		}
	}
	for _, e := range p.tasks {
		if e.progress.There && e.agent != "" {
			put(e.agent, e.files.progress, state{e.progress.Stamp.MtimeNs, e.progress.Stamp.Size})
		}
	}
	for name, s := range agents {
		p.ownSigns(name, s, put)
	}
	for name, s := range agents {
		s.agent.Signs = p.sign(name, now[name])
	}
	for name := range p.bench.signs {
		if agents[name] == nil {
			delete(p.bench.signs, name)
		}
	}
}

func (p *Project) ownSigns(name string, s *sitting, put func(agent, source string, s state)) {
	for _, b := range s.beats {
		if b.current != nil && b.current.There {
			put(name, "current "+b.file, state{b.current.Stamp.MtimeNs, b.current.Stamp.Size})
		}
		if len(s.beats) > 1 && b.beat.There {
			put(name, b.file, state{b.beat.Stamp.MtimeNs, b.beat.Stamp.Size})
		}
	}
	for _, file := range p.opts.Sources[name] {
		at := filepath.FromSlash(file)
		if !filepath.IsAbs(at) {
			at = filepath.Join(p.dir, at)
		}
		if st, err := os.Lstat(at); err == nil {
			put(name, "source "+file, state{st.ModTime().UnixNano(), st.Size()})
		}
	}
}

// sign returns the agent's fingerprint. The fingerprint changes only if a sign is new or has changed.
func (p *Project) sign(name string, now map[string]state) string {
	old := p.bench.signs[name]
	if old == nil {
		if len(now) == 0 {
			return ""
		}
		old = &signs{}
		p.bench.signs[name] = old
	}
	fresh := false
	for source, s := range now {
		if was, ok := old.states[source]; !ok || was != s {
			fresh = true
			break
		}
	}
	old.states = now
	if fresh {
		h := fnv.New64a()
		for _, source := range sortedKeys(now) {
			fmt.Fprintln(h, source, now[source])
		}
		old.sum = fmt.Sprintf("%x", h.Sum64())
	}
	return old.sum
}
