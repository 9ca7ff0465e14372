package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

func granted(project, name, holder string) Granted {
	pid := 4711
	return Granted{LockReport: supervisor.LockReport{Project: project, Protocol: "steward", Resource: name, Holder: holder, State: protocol.LockHeld, PID: &pid},
		Since: noon, Waiting: func() []LockWaiter { return []LockWaiter{{PID: 4712, Command: []string{"steward", "lock"}}} }}
}

// The status document contains the present locks of steward lock run, also between two decisions, and each once.
func TestGrantedLocksInTheState(t *testing.T) {
	w := newWorld(t, scene())
	var now []Granted
	w.server.Granted = func(*supervisor.State) []Granted { return now }
	locks := func(path string) string {
		t.Helper()
		var doc struct{ Locks []supervisor.LockReport }
		if err := w.client.Get(t.Context(), path, &doc); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, l := range doc.Locks {
			words = append(words, fmt.Sprintf("%s:%s %s by %s", l.Project, l.Protocol, l.Resource, l.Holder))
		}
		return strings.Join(words, ", ")
	}
	const file = "shop:agentstatus deploy by planner"
	for _, c := range []struct {
		held []Granted
		want string
	}{
		{nil, file},
		{[]Granted{granted("shop", "src/a.go", "fixer")}, file + ", shop:steward src/a.go by fixer"},
		{[]Granted{granted("shop", "deploy", "planner")}, file}, // the file's entry is its mirror
		{[]Granted{granted("shop", "deploy", "fixer"), granted("site", "deploy", "planner")}, file + ", shop:steward deploy by fixer, site:steward deploy by planner"},
		{nil, file},
	} {
		now = c.held
		for _, path := range []string{"/v1/status", "/v1/locks"} {
			if got := locks(path); got != c.want {
				t.Errorf("%s: got %s, want %s", path, got, c.want)
			}
		}
	}
}

// Explain accepts them by the same names as other locks, lists the waiting processes, also for a lock that a file
// mirrors, and does not guess between two locks of the same name.
func TestExplainGrantedLock(t *testing.T) {
	w := newWorld(t, scene())
	now := []Granted{granted("shop", "src/a.go", "fixer"), granted("site", "deploy", "fixer")}
	w.server.Granted = func(*supervisor.State) []Granted { return now }
	explain := func(subject string) (Explanation, error) {
		var e Explanation
		return e, w.client.Get(t.Context(), "/v1/explain?subject="+subject, &e)
	}
	for _, name := range []string{"src/a.go", "lock/src/a.go", "shop:lock/src/a.go", "shop:steward:lock/src/a.go"} {
		e, err := explain(name)
		if err != nil || e.Subject != "shop:lock/src/a.go" || e.Lock == nil || e.Lock.Holder != "fixer" {
			t.Fatalf("%s: %+v, %v", name, e, err)
		}
		if v := e.LockEvidence; v == nil || *v.Process != 4711 || !v.Acquired.Equal(noon) || len(v.Waiting) != 1 || v.Waiting[0].PID != 4712 {
			t.Errorf("%s: evidence %+v", name, v)
		}
	}
	if _, err := explain("deploy"); err == nil || !strings.Contains(err.Error(), "site:lock/deploy") {
		t.Errorf("two of one name: %v", err)
	}
	now = []Granted{granted("shop", "deploy", "planner")}
	if e, err := explain("deploy"); err != nil || e.Lock.Protocol != "agentstatus" || len(e.LockEvidence.Waiting) != 1 {
		t.Errorf("a mirrored one: %+v, %v", e, err)
	}
	now = nil
	var gone *Error
	if _, err := explain("src/a.go"); !errors.As(err, &gone) || gone.Status != 404 {
		t.Errorf("one that is free again: %v", err)
	}
	if e, err := explain("deploy"); err != nil || e.LockEvidence.Waiting != nil || e.LockEvidence.Expires.Sub(noon) != time.Hour {
		t.Errorf("a file's own: %+v, %v", e, err)
	}
}
