//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
)

// The real notification server under a real display, and a real voice, are in platform/desktop: TestHeadlessDesktop.

func TestDesktopCallsTheHumanOnce(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Serve()
	h.Conflicts()
	failed := time.Now()
	h.Until("the popup", func() bool { return h.Board.Shown(rig.Conflict) == 1 })
	popup := time.Since(failed)
	h.Until("the sentence", func() bool { return len(h.Heard()) == 1 })
	t.Logf("popup after %v, sentence spoken to its end after %v; the document allows 10 s", popup, time.Since(failed))
	h.Until("the interruption is counted, once", func() bool {
		return strings.Contains(h.Steward("goals", "-o", "json"), `"name": "voice_interruptions_per_task",
      "value": 1,`)
	})
	for n := 2; n <= 100; n++ {
		h.AskAgain("p", rig.TaskID(1), n)
		again := rig.ResultOf(rig.TaskID(1), "GIT_CONFLICT:fatal")
		again["execution_time_seconds"] = n
		h.Put(h.Task("p", rig.TaskID(1), ".result.json"), again)
		h.Until(fmt.Sprintf("failure %d is counted", n), func() bool { return h.Incident(rig.FailedTask).Count == n })
	}
	if said := h.Heard(); h.Board.Told("") != 1 || len(said) != 1 || said[0] != rig.Conflict+" Project p." {
		t.Errorf("100 identical failures: %d popups (%q), sentences %q; want one of each", h.Board.Told(""), h.Board.Titles, said)
	}
	h.Steward("ack", h.Incident(rig.FailedTask).Key)
	h.Until("the popup is withdrawn", func() bool { return h.Board.Shown("") == 0 })
	if i := h.Incident(rig.FailedTask); i.State != rules.Acked || i.Count != 100 {
		t.Errorf("after ack: %s, count %d; want acked, 100", i.State, i.Count)
	}
}

func TestDesktopWithoutScreen(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Conflicts()
	h.Until("the sentence", func() bool { return len(h.Heard()) == 1 && h.Heard()[0] == rig.Conflict+" Project p." })
	h.Until("both are on record", func() bool {
		i := h.Incident(rig.FailedTask)
		return rig.Carried(i, "desktop", false) && rig.Carried(i, "speech", true)
	})
}

func TestDesktopWithoutVoice(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Script("paplay", "exit 1\n")
	h.Serve()
	h.Conflicts()
	h.Until("the popup", func() bool { return h.Board.Shown(rig.Conflict) == 1 })
	h.Until("both are on record", func() bool {
		i := h.Incident(rig.FailedTask)
		return rig.Carried(i, "desktop", true) && rig.Carried(i, "speech", false)
	})
}

// TestDesktopComesBack: with screen and voice dead the incident waits; a new daemon finds it in the ledger.
func TestDesktopComesBack(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Script("paplay", "exit 1\n")
	p := h.Conflicts()
	h.Until("both failures are on record", func() bool {
		i := h.Incident(rig.FailedTask)
		return rig.Carried(i, "desktop", false) && rig.Carried(i, "speech", false)
	})
	if i := h.Incident(rig.FailedTask); i.State != rules.Raised {
		t.Errorf("nobody was reached, and the incident is %s", i.State)
	}
	h.Shows(rig.Conflict, `"result": *"failed"`)
	h.Serve()
	if os.Getenv("STEWARD_LONG") != "1" { // by itself the courier tries again after half a minute
		p.Kill()
		h.Start("p")
	}
	for range 3 { // three times the usual patience
		if h.Waited(func() bool { return h.Board.Shown(rig.Conflict) == 1 }) {
			break
		}
	}
	h.Until("the popup", func() bool { return h.Board.Shown(rig.Conflict) == 1 })
}

// TestDesktopAfterRestart: a new daemon shows an open incident again, without a second sentence, and a press of that
// popup's button is the answer. A daemon that ends in order takes its popups along.
func TestDesktopAfterRestart(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Serve()
	p := h.Conflicts()
	h.Until("the popup", func() bool { return h.Board.Shown(rig.Conflict) == 1 })
	h.Until("the sentence is on record", func() bool { return rig.Carried(h.Incident(rig.FailedTask), "speech", true) })
	p.Kill()
	p = h.Start("p")
	h.Until("the second popup, beside that of the killed daemon", func() bool { return h.Board.Shown(rig.Conflict) == 2 })
	_ = p.Process.Signal(syscall.SIGTERM)
	<-p.Ended
	h.Until("the second popup is gone", func() bool { return h.Board.Shown(rig.Conflict) == 1 })
	h.Board.Clear()
	h.Start("p")
	h.Until("the third popup", func() bool { return h.Board.Shown(rig.Conflict) == 1 })
	if !h.Board.Press(rig.Conflict, "Leave it") {
		t.Fatalf("the buttons are %v", h.Board.Buttons)
	}
	h.Until("the answer", func() bool {
		i := h.Incident(rig.FailedTask)
		return i.Answer != nil && i.Answer.Via == escalate.ViaPopup
	})
	h.Until("the popup is withdrawn", func() bool { return h.Board.Shown("") == 0 })
	if said := h.Heard(); len(said) != 1 {
		t.Errorf("sentences %q", said)
	}
}

func TestDesktopRecovery(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks+"[heartbeat]\nlate = \"1s\"\ndead = \"2s\"\n")
	h.Serve()
	h.Boot("p")
	stop := h.Beats("p", 0.9)
	h.Start("p")
	h.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	stop()
	const dead = "codex-cursor is dead"
	h.Until("the popup", func() bool { return h.Board.Shown(dead) == 1 })
	h.Beats("p", 0.9)
	h.Until("it is withdrawn when the agent is back", func() bool { return h.Board.Shown(dead) == 0 })
	h.Until("the incident is over", func() bool { return h.Incident("p:agent/codex-cursor").State == rules.Resolved })
}

// TestDesktopButton: an agent's question stands on the screen with its own options; a press is the answer, and the agent
// finds it in its own protocol, once.
func TestDesktopButton(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Serve()
	h.Boot("p")
	if err := os.MkdirAll(h.At("p/.agents/messages"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.Start("p")
	h.Write("p/.agents/messages/blocker.json", `{"message_type": "BLOCKER_ESCALATION", "task_id": "int_001", "from_agent": "INTEGRATIONS",
 "blocker_type": "clarification_needed", "severity": "high", "timestamp": "`+time.Now().UTC().Format(time.RFC3339)+`", "description": "Which database?",
 "options": ["Use production", "Use the staging copy"], "suggested_resolution": "2", "context": "", "escalate_to": "human"}`)
	h.Until("the popup", func() bool { return h.Board.Shown("Which database?") == 1 })
	if h.Board.Press("Which database?", "Use my own") || !h.Board.Press("Which database?", "Use the staging copy") {
		t.Fatalf("the buttons are %v", h.Board.Buttons)
	}
	pressed := time.Now()
	resolutions := func() (all []string) {
		files, _ := filepath.Glob(h.At("p/.agents/messages/*.json"))
		for _, file := range files {
			if data, _ := os.ReadFile(file); strings.Contains(string(data), "BLOCKER_RESOLUTION") {
				all = append(all, string(data))
			}
		}
		return all
	}
	h.Until("the resolution", func() bool { return len(resolutions()) == 1 })
	t.Logf("the agent could read the answer %v after the press", time.Since(pressed))
	if r := resolutions()[0]; !strings.Contains(r, "Use the staging copy") || strings.Contains(r, "Use production") {
		t.Errorf("the answer is %s", r)
	}
	h.Until("the popup is withdrawn", func() bool { return h.Board.Shown("") == 0 })
	h.Pause(time.Second)
	if n := len(resolutions()); n != 1 {
		t.Errorf("%d resolutions", n)
	}
	i := h.IncidentOf("Which database?")
	if i.State != rules.Resolved || i.ResolvedBy != rules.ByAnswer || i.Answer.Via != escalate.ViaPopup || i.Answer.Carried.IsZero() {
		t.Errorf("the incident is %+v", i)
	}
}
