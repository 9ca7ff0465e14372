package agentstatus

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// Two agents were merged from a late write. Their own later entries stand.
func TestWhoCameLateSpeaksOn(t *testing.T) {
	s := newSite(t, around)
	old, err := os.OpenFile(s.Path(Base+"/"+registry), os.O_RDWR, 0)
	s.Do(err)
	defer old.Close()
	a, _ := s.look().Agent(codex)
	s.Do(s.apply(protocol.Change{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Judged: protocol.Judged{Ref: a.Ref}, Status: "error", Reason: protocol.ReasonSilent}))
	text := strings.Replace(registryText, `"agents": {`, `"agents": {"n1": {"status": "idle"}, "n2": {"status": "idle"},`, 1)
	_, err = old.WriteAt([]byte(text), 0)
	s.Do(err)
	s.at(s.Now.Add(100 * time.Millisecond))
	got := s.Read(Base + "/" + registry)
	if !strings.Contains(got, `"n2"`) {
		t.Fatal("not merged", got)
	}
	busy := strings.Replace(got, `"n1": {"status": "idle"}`, `"n1": {"status": "busy"}`, 1)
	s.Write(Base+"/"+registry, busy)
	s.at(s.Now.Add(200 * time.Millisecond))
	if now := s.Read(Base + "/" + registry); now != busy {
		t.Errorf("n1 said busy, now:\n%s", now)
	}
}

// An agent was merged from a late write, and a client that had not seen it rewrites the registry.
func TestRegistrationWrittenOver(t *testing.T) {
	s := newSite(t, around)
	old, err := os.OpenFile(s.Path(Base+"/"+registry), os.O_RDWR, 0)
	s.Do(err)
	defer old.Close()
	a, _ := s.look().Agent(codex)
	s.Do(s.apply(protocol.Change{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Judged: protocol.Judged{Ref: a.Ref}, Status: "error", Reason: protocol.ReasonSilent}))
	before := s.Read(Base + "/" + registry)
	// the most common late write: an agent's own entry changes, and an entry is added
	text := strings.Replace(strings.Replace(registryText, `"status": "idle"`, `"status": "busy"`, 1), `"agents": {`, `"agents": {"n1": {"status": "idle"},`, 1)
	_, err = old.WriteAt([]byte(text), 0)
	s.Do(err)
	s.at(s.Now.Add(100 * time.Millisecond))
	s.Write(Base+"/"+registry, strings.Replace(before, `"agents": {`, `"agents": {"n2": {"status": "idle"},`, 1))
	s.at(s.Now.Add(200 * time.Millisecond))
	now := s.Read(Base + "/" + registry)
	if !strings.Contains(now, "n1") || !strings.Contains(now, "n2") || !strings.Contains(now, "busy") {
		t.Errorf("what was merged and written over is not restored:\n%s", now)
	}
}
