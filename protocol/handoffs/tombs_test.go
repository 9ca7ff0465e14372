package handoffs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The record of released locks has at most two files, and a restart reads both.
func TestTombstonesAreBounded(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", "")))
	path := s.Path(Base + "/" + releasesFile)
	s.Do(os.MkdirAll(filepath.Dir(path), 0o755))
	fill := func() {
		t.Helper()
		log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		s.Do(err)
		_, err = log.WriteString(strings.Repeat(`{"at":"2026-01-01T00:00:00Z","filler":true}`+"\n", maxFile/40))
		s.Do(err)
		s.Do(log.Close())
	}
	for i, agent := range []string{"planner", "builder", "reviewer"} {
		s.Do(s.p.Change(t.Context(), s.Now, func() error { return s.p.releases.addHandoff("h", agent, s.Now.Add(time.Duration(i)*time.Minute)) }))
		fill()
	}
	s.reopen()
	s.Do(s.p.Change(t.Context(), s.Now, func() error { return s.p.releases.addHandoff("h", "tester", s.Now) }))
	files, err := filepath.Glob(filepath.Dir(path) + "/tombstones*")
	if s.Do(err); len(files) != 2 {
		t.Errorf("the files are %q", files)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 1000 {
		t.Errorf("the newest file was not begun anew: %v, %v", info, err)
	}
	s.reopen()
	s.Do(s.p.Change(t.Context(), s.Now, func() error { s.p.releases.read(); return nil }))
	if _, known := s.p.releases.took["tester"]; !known {
		t.Error("the newest line is forgotten")
	}
	s.Write(Base+"/"+releasesFile, "")
	s.Do(os.WriteFile(s.Path(Base+"/"+oldReleasesFile), []byte(`{"at":"2026-01-01T00:00:00Z","handoff":"h","agent":"planner","accepted":"2026-01-01T00:00:00Z"}`+"\n"), 0o644))
	s.reopen()
	s.Do(s.p.Change(t.Context(), s.Now, func() error { s.p.releases.read(); return nil }))
	if _, known := s.p.releases.took["planner"]; !known {
		t.Error("the older file is not read")
	}
}
