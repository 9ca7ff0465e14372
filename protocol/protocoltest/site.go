package protocoltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// Site is one project under test, with its own time. An adapter's tests embed it.
type Site struct {
	T     testing.TB
	Dir   string
	Clock func() time.Time // the system's clock, which stamps the files
	Now   time.Time        // never before Clock
}

// NewSite writes the files of a txtar archive into a new folder. Its time begins now.
func NewSite(t testing.TB, archive string, clock func() time.Time) *Site {
	t.Helper()
	s := &Site{T: t, Dir: t.TempDir(), Clock: clock, Now: clock()}
	Write(t, s.Dir, archive, s.Now)
	return s
}

// Path is the absolute path of a file, given as a slash-separated path relative to the project.
func (s *Site) Path(rel string) string { return filepath.Join(s.Dir, filepath.FromSlash(rel)) }

// Write writes a file as a client would: times in double braces are relative to the site's time.
func (s *Site) Write(rel, text string) {
	s.T.Helper()
	Write(s.T, s.Dir, "-- "+rel+" --\n"+text, s.Now)
}

// Read is a file's text.
func (s *Site) Read(rel string) string {
	s.T.Helper()
	b, err := os.ReadFile(s.Path(rel))
	s.Do(err)
	return string(b)
}

// Do ends the test if one of its own operations has failed.
func (s *Site) Do(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Pass advances the time.
func (s *Site) Pass(d time.Duration) {
	s.Now = s.Now.Add(d)
	if real := s.Clock(); real.After(s.Now) {
		s.Now = real
	}
}

// FaultAt finds the first Fault whose path contains part; nil if none exists.
func FaultAt(snap *protocol.Snapshot, part string) *protocol.Fault {
	for i := range snap.Faults {
		if strings.Contains(snap.Faults[i].Path, part) {
			return &snap.Faults[i]
		}
	}
	return nil
}

// Codes lists the findings about a subject as "code severity".
func Codes(snap *protocol.Snapshot, id string) string {
	var list []string
	for _, f := range snap.Findings {
		if f.Subject.ID == id {
			list = append(list, f.Code+" "+string(f.Severity))
		}
	}
	return strings.Join(list, ", ")
}
