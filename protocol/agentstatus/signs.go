package agentstatus

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// signs are an agent's signs of life other than its heartbeat, as of the last scan, and the fingerprint of the last new
// one. A sign that vanishes does not count: steward itself archives what an attempt left.
type signs struct {
	states map[string]sign // by source
	sum    string
}

// sign is the state of a sign's source.
type sign struct{ mtime, size int64 }

func signOf[T any](d *doc[T]) sign { return sign{d.Stamp.MtimeNs, d.Stamp.Size} }

// signsByAgent is what one scan found.
type signsByAgent map[string]map[string]sign

func (s signsByAgent) add(agent, source string, state sign) {
	if s[agent] == nil {
		s[agent] = map[string]sign{}
	}
	s[agent][source] = state
}

// updateSigns updates the agents' fingerprints. It runs after the tasks are described, which sets the agent that each
// progress file belongs to.
func (s *state) updateSigns(known directory, agents map[string]*agentFacts) {
	now := signsByAgent{}
	for source, n := range s.log.lines {
		if n > 0 {
			now.add(known.canonical(source), "log "+source, sign{size: int64(n)})
		}
	}
	for _, e := range s.tasks.open {
		if e.progress.There && e.agent != "" {
			now.add(e.agent, e.progress.path, signOf(&e.progress))
		}
	}
	for name, f := range agents {
		s.agents.ownSigns(name, f, now)
	}
	old := s.agents.signs
	s.agents.signs = make(map[string]*signs, len(agents))
	for name, f := range agents {
		was := old[name]
		if was == nil {
			was = &signs{}
		}
		was.update(now[name])
		s.agents.signs[name], f.agent.Signs = was, was.sum
	}
}

func (a *agentDirs) ownSigns(name string, f *agentFacts, now signsByAgent) {
	for _, h := range f.beats {
		if h.current.There {
			now.add(name, "current "+h.beat.path, signOf(&h.current))
		}
		if len(f.beats) > 1 && h.beat.There {
			now.add(name, h.beat.path, signOf(&h.beat))
		}
	}
	for _, file := range a.sources[name] {
		at := filepath.FromSlash(file)
		if !filepath.IsAbs(at) {
			at = filepath.Join(a.project, at)
		}
		if st, err := os.Lstat(at); err == nil {
			now.add(name, "source "+file, sign{st.ModTime().UnixNano(), st.Size()})
		}
	}
}

// update changes the fingerprint only if a sign is new or has changed.
func (s *signs) update(now map[string]sign) {
	fresh := false
	for source, state := range now {
		if was, ok := s.states[source]; !ok || was != state {
			fresh = true
			break
		}
	}
	s.states = now
	if fresh {
		h := fnv.New64a()
		for _, source := range sortedKeys(now) {
			fmt.Fprintln(h, source, now[source])
		}
		s.sum = fmt.Sprintf("%x", h.Sum64())
	}
}
