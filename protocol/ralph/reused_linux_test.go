package ralph

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// A session with a reused number is shown but never ended, even if one of its processes works in the worker's folder: a
// user may have a terminal open there.
func TestSessionOfAReusedNumberIsNotReaped(t *testing.T) {
	for name, c := range map[string]struct {
		age  time.Duration // of the pid file
		seen bool          // steward saw the leader
		why  string        // "": the session is reaped
	}{
		"just begun":                      {0, false, ""},
		"within the hour":                 {50 * time.Minute, false, ""},
		"long after, and nobody saw":      {48 * time.Hour, false, "began long after the pid file"},
		"long after, and we saw it lead":  {48 * time.Hour, true, ""},
		"older than the pid file":         {-time.Minute, false, "is older than the pid file"},
		"older than the pid file, though": {-time.Minute, true, "is older than the pid file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := inHand(t)
			k := found(t, filepath.Join(dir, home), filepath.Join(dir, home, "workspace"), ":")
			write(t, dir, home+"/agent.pid", pidText(k.leader))
			age(t, dir, home+"/agent.pid", time.Now().Add(-c.age))
			p := open(t, dir)
			if c.seen {
				look(t, p, time.Now())
			}
			k.killLeader()
			s := sameByHints(t, p, time.Now())
			a, _ := s.Agent(workerOne)
			f := findingOf(s, "orphans")
			if a.Presence != protocol.PresenceHere || a.Evidence != "its leader is gone; 1 of its processes live on" || f == nil || f.Severity != protocol.High ||
				taskOf(t, s, "TASK-001").Lost != "" {
				t.Fatalf("%+v\n%s", a, protocoltest.Describe(s))
			}
			if (len(a.Orphans) == 0) != (c.why != "") || !strings.Contains(f.Text, c.why) || strings.Contains(f.Text, "does not end") != (c.why != "") {
				t.Errorf("orphans %v: %s", a.Orphans, f.Text)
			}
			reap := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: workerOne},
				Processes: []protocol.Identity{protocol.Identity(k.child)}, Status: "SIGKILL"}
			if err := p.Apply(t.Context(), reap, time.Now()); errors.Is(err, protocol.ErrConflict) != (c.why != "") {
				t.Errorf("reap: %v", err)
			}
			if c.why != "" && !k.living() {
				t.Error("it was ended")
			}
		})
	}
}

// Files that a worker inherited are no violation: the standard streams, and logs opened for appending, even if the process
// that opened them is gone.
func TestInheritedLogsAreNoViolation(t *testing.T) {
	dir := inHand(t)
	script := `mkdir -p workspace; exec 2>../../../run.log 5>>../../../append.log 6>../../../outside`
	k := found(t, filepath.Join(dir, home), filepath.Join(dir, home, "workspace"), script)
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	s := sameByHints(t, open(t, dir), time.Now())
	var got []string
	for _, f := range s.Findings {
		if f.Code == "violation" {
			got = append(got, filepath.Base(f.Field))
		}
	}
	if !slices.Equal(got, []string{"outside"}) {
		t.Errorf("violations %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "run.log")); err != nil {
		t.Error(err)
	}
}
