package handoffs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// A handoff is created, accepted and completed at the times in its files, whatever zone an agent means by a time without
// one. No time is before the event, or in the future.
func TestHandoffByAnyZone(t *testing.T) {
	for _, pen := range protocoltest.Zones() {
		s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "idle"}`, "")))
		s.look()
		write := func(at box, more string) {
			text := strings.Replace(task("h1", "x"), "{{now}}", pen.Text(time.Now()), 1)
			s.Write(boxPath(at, "h1"), strings.Replace(text, `"status": "x"`, `"status": "x"`+more, 1))
		}
		near := func(what string, at time.Time) {
			t.Helper()
			if d := time.Since(at); d.Abs() > 2*time.Second {
				t.Errorf("%s: %s %v ago", pen.Name, what, d)
			}
		}
		write(pending, "")
		near("created", s.look().Tasks[0].Created)
		s.Do(os.Remove(s.Path(boxPath(pending, "h1"))))
		own := fmt.Sprintf(`, "accepted_at": %q, "completed_at": %q`, pen.Text(time.Now()), pen.Text(time.Now()))
		write(accepted, own)
		near("started", s.look().Tasks[0].Started)
		s.Do(os.Remove(s.Path(boxPath(accepted, "h1"))))
		write(completed, own)
		near("completed", s.look().Tasks[0].Outcome.At)
	}
}

// A handoff belongs to the workflow that started before it, even if different agents wrote the two times.
func TestWorkflowByAnyZone(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	utc := protocoltest.Pen{}
	for _, pen := range protocoltest.Zones() {
		for _, pair := range [][2]protocoltest.Pen{{pen, pen}, {utc, pen}, {pen, utc}} {
			for after, want := range map[time.Duration]bool{time.Second: true, -27 * time.Hour: false} {
				s := newSite(t, file(statePath, `{"locks": {}, "agents": {}, "current_workflow": {"id": "w", "started": "`+pair[0].Text(start)+`"}}`))
				s.look()
				m := handoffMessage{}
				m.created.At, m.created.Zoneless = start.Add(after), pair[1].Zone != nil
				if m.created.Zoneless {
					_, offset := m.created.At.In(pair[1].Zone).Zone()
					m.created.At = m.created.At.Add(time.Duration(offset) * time.Second)
				}
				w := s.p.state.Value.workflow
				if got := w.has(&summary{created: m.created}); got != want {
					t.Errorf("%q started, %q written %v later: %v", pair[0].Name, pair[1].Name, after, got)
				}
			}
		}
	}
}

// A grant by steward never takes a fresh lock from a living agent that writes times without a zone. The lock lasts for
// its full duration from first sight, and a holder that has just written its entry is alive.
func TestRivalByAnyZone(t *testing.T) {
	for _, pen := range protocoltest.Zones() {
		for _, stated := range []string{
			`"acquired": "` + pen.Text(time.Now()) + `", "expires": "` + pen.Text(time.Now().Add(30*time.Minute)) + `"`,
			`"acquired": "` + pen.Text(time.Now()) + `"`,
			`"expires": "` + pen.Text(time.Now().Add(30*time.Minute)) + `"`,
		} {
			state := `{"locks": {"a": {"agent": "fixer", ` + stated + `}}, "agents": {"fixer": {"status": "active", "last_active": "` + pen.Text(time.Now()) + `"}}}`
			s := newSite(t, file(statePath, state))
			m := OpenMirror(s.Dir, MirrorOptions{TTL: 30 * time.Minute, Watch: time.Second, Life: 30 * time.Minute})
			t.Cleanup(m.Close)
			for _, after := range []time.Duration{0, 20 * time.Minute} {
				k := protocol.Lock{Resource: "a", Holder: "builder", Fence: 1, Expires: time.Now().Add(time.Hour)}
				r, err := m.Claim(t.Context(), k, time.Now().Add(after))
				s.Do(err)
				if r == nil || !r.Alive || s.Read(statePath) != state {
					t.Errorf("%s, after %v: %+v, %s", pen.Name, after, r, s.Read(statePath))
				}
			}
		}
	}
}
