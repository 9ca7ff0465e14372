package e2e

import (
	"encoding/json"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// question is an agent that cannot go on, in its own words.
type question struct{ project, task, agent, text, context, advice, first, second string }

// checkout is the question of the picture in the documents.
var checkout = question{"shop", "int_042", "INTEGRATIONS", "Which payment API?",
	"The provider switches v1 off on Friday.", "I would move to v2.", "Stay on v1", "Move to v2 now"}

// TestHumanAtTheDesk has the built program reach a human on a real desktop, and carry the answer back: an agent's file
// becomes a window and a voice, a click of the mouse becomes the reply that this agent reads.
func TestHumanAtTheDesk(t *testing.T) {
	t.Parallel()
	h := newDesk(t, rig.QuickLooks)
	for _, scene := range []struct {
		name string
		play func(*desk)
	}{
		{"click", clickAnswers},
		{"shell", shellAnswers},
		{"late press", pressesLate},
		{"both at once", bothAnswer},
		{"killed", killedBetween},
	} {
		t.Run(scene.name, func(t *testing.T) {
			h.TB = t
			scene.play(h)
		})
		h.TB = t
	}
}

// clickAnswers: popup, voice, a double click, one reply; later presses add nothing.
func clickAnswers(h *desk) {
	h.asks(checkout)
	popup, at := h.sees("human", 2)
	h.portrait(popup)
	h.offered(checkout)
	h.Until("the sentence is spoken", func() bool { return rig.Carried(h.IncidentOf(checkout.agent), "speech", true) })
	if rms, length := h.loudness(); rms <= 0.02 || length < 2*time.Second {
		h.Errorf("heard RMS %.3f for %v; want more than 0.02 for some seconds", rms, length)
	} else {
		h.Logf("heard RMS %.3f for %v", rms, length)
	}
	pressed := time.Now()
	h.click(at[1], 2)
	h.Until("the reply", func() bool { return len(h.replies(checkout)) > 0 })
	h.Logf("the agent could read the answer %v after the mouse set out", time.Since(pressed))
	h.over(checkout, checkout.second, escalate.ViaPopup)
	h.click(at[1], 1) // nothing is there
	h.click(at[0], 1)
	h.refused(checkout, "1")
	h.over(checkout, checkout.second, escalate.ViaPopup)
}

// shellAnswers: an answer from the shell takes the popup away; a click where it stood adds nothing.
func shellAnswers(h *desk) {
	q := question{"api", "dev_006", "ARCHITECT", "Which queue?", "", "", "Redis", "A table"}
	h.asks(q)
	_, at := h.sees("human-shell", 2)
	h.Steward("answer", h.IncidentOf(q.agent).Key, "Redis")
	h.over(q, q.first, escalate.ViaCommand)
	h.click(at[1], 1)
	h.over(q, q.first, escalate.ViaCommand)
}

// pressesLate: the bus sleeps while the question is answered from the shell, so that the popup still stands and its
// button is pressed after the answer.
func pressesLate(h *desk) {
	q := question{"site", "dev_007", "DEVELOPER", "Which login?", "", "", "Option A: JWT", "Option B: OAuth"}
	h.asks(q)
	_, at := h.sees("human-late", 2)
	_, before := h.glance.all()
	h.halted(h.busd, func() {
		h.Steward("answer", h.IncidentOf(q.agent).Key, "1", "--why", "simple")
		h.Until("the reply", func() bool { return len(h.replies(q)) > 0 })
		h.click(at[1], 1)
	})
	h.Until("the press", func() bool { _, n := h.glance.all(); return n > before })
	h.over(q, q.first, escalate.ViaCommand)
}

// bothAnswer: while the daemon sleeps, the human clicks one option and types the other; one of the two is refused.
func bothAnswer(h *desk) {
	q := question{"docs", "doc_008", "WRITER", "Which licence?", "", "", "MIT", "Apache-2.0"}
	daemon := h.asks(q)
	_, at := h.sees("human-both", 2)
	_, before := h.glance.all()
	typed := h.Command("steward", "answer", h.IncidentOf(q.agent).Key, "1")
	h.halted(daemon, func() {
		h.click(at[1], 1)
		h.Until("the press", func() bool { _, n := h.glance.all(); return n > before })
		if err := typed.Start(); err != nil {
			h.Fatal(err)
		}
		h.Pause(200 * time.Millisecond) // it asks
	})
	decision, via := q.first, escalate.ViaCommand
	if err := typed.Wait(); err != nil {
		decision, via = q.second, escalate.ViaPopup
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 5 {
			h.Errorf("the shell's answer: %v, want exit 5", err)
		}
	}
	h.Logf("the first was: %s", via)
	h.over(q, decision, via)
}

// killedBetween: a daemon that is killed while the popup stands. Its popup stays, with dead buttons, until it is dismissed.
// The next daemon shows the question again, with buttons of its own.
func killedBetween(h *desk) {
	q := question{"deploy", "dep_001", "DEPLOYMENT", "Staging is down. Go on?", "", "", "Wait for staging", "Skip staging"}
	daemon := h.asks(q)
	h.sees("human-killed", 2)
	daemon.Kill()
	before, _ := h.glance.all()
	if n := len(h.windows()); n != 1 {
		h.Fatalf("%d popups while no daemon runs", n)
	}
	h.dismissAll()
	h.Start(q.project)
	h.Until("the popup is shown again", func() bool { after, _ := h.glance.all(); return len(after) > len(before) })
	for range 10 { // two seconds, ten looks
		h.Pause(200 * time.Millisecond)
		if n := len(h.windows()); n != 1 {
			h.Fatalf("after the restart %d popups stand", n)
		}
	}
	if after, _ := h.glance.all(); len(after) != len(before)+1 {
		h.Errorf("after the restart: %+v, want one more", after[len(before):])
	}
	_, at := h.sees("human-restarted", 2)
	h.click(at[0], 1)
	h.over(q, q.first, escalate.ViaPopup)
}

// dismissAll closes every popup on the screen, as a person does.
func (h *desk) dismissAll() {
	h.Helper()
	server := h.glance.conn.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications")
	for id := range uint32(64) {
		server.Call("org.freedesktop.Notifications.CloseNotification", 0, id+1)
	}
	h.Until("no popup stands", func() bool { return len(h.windows()) == 0 })
}

// asks starts a daemon for the project, and has its agent write the question. The daemon lives until the scene ends, and
// has a state folder of its own: each scene's question is the first. It is critical, for other popups fade away.
func (h *desk) asks(q question) *rig.Child {
	h.Helper()
	h.State = h.At("state-" + q.project)
	h.Env = append(h.Env, "STEWARD_STATE_DIR="+h.State) // the last one counts
	folder := h.At(q.project, ".agents/messages")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		h.Fatal(err)
	}
	p := h.Start(q.project)
	h.Put(filepath.Join(folder, "blocker.json"), rig.Doc{"message_type": "BLOCKER_ESCALATION", "task_id": q.task, "from_agent": q.agent,
		"blocker_type": "clarification_needed", "severity": "critical", "timestamp": rig.Stamp(), "description": q.text, "context": q.context,
		"options": []string{q.first, q.second}, "suggested_resolution": q.advice, "escalate_to": "human"})
	return p
}

// offered checks what the popup was told to say.
func (h *desk) offered(q question) {
	h.Helper()
	opened, _ := h.glance.all()
	if len(opened) != 1 {
		h.Fatalf("%d popups were asked for: %+v", len(opened), opened)
	}
	if n := opened[0]; !strings.Contains(n.title, q.agent) || !slices.Equal(n.labels, []string{q.first, q.second}) {
		h.Errorf("the popup says %+v", n)
	}
	if i := h.IncidentOf(q.agent); i.Severity != protocol.Critical || !rig.Carried(i, "desktop", true) {
		h.Errorf("the incident is %+v", i)
	}
}

// reply is what the agent finds.
type reply struct {
	Type     string `json:"message_type"`
	Task     string `json:"task_id"`
	To       string `json:"to_agent"`
	From     string `json:"from_agent"`
	Decision string `json:"decision"`
	Resume   bool   `json:"resume_task"`
}

// replies reads every message of the folder that resolves a blocker.
func (h *desk) replies(q question) (all []reply) {
	files, _ := filepath.Glob(h.At(q.project, ".agents/messages", "*"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		var r reply
		if strings.Contains(string(data), "BLOCKER_RESOLUTION") {
			if err := json.Unmarshal(data, &r); err != nil {
				h.Errorf("%s: %v\n%s", file, err, data)
			}
			all = append(all, r)
		}
	}
	return all
}

// over waits until the incident has ended with its popup, lets a second pass, and finds exactly the one answer.
func (h *desk) over(q question, decision, via string) {
	h.Helper()
	h.Until("the incident is over and the popup gone", func() bool {
		return h.IncidentOf(q.agent).State == rules.Resolved && len(h.windows()) == 0
	})
	h.Pause(time.Second)
	want := reply{"BLOCKER_RESOLUTION", q.task, q.agent, "human", decision, true}
	if got := h.replies(q); !slices.Equal(got, []reply{want}) {
		h.Errorf("the agent finds %+v; want only %+v", got, want)
	}
	i := h.IncidentOf(q.agent)
	if i.ResolvedBy != rules.ByAnswer || i.Answer == nil || i.Answer.Via != via || i.Answer.Carried.IsZero() {
		h.Errorf("the incident is %+v", i)
	}
	if n := len(h.windows()); n != 0 {
		h.Errorf("%d popups have come back", n)
	}
}

// refused: an answer from the shell comes too late, and says so.
func (h *desk) refused(q question, option string) {
	h.Helper()
	out, err := h.Command("steward", "answer", h.IncidentOf(q.agent).Key, option).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 5 {
		h.Errorf("a second answer: %v, want exit 5\n%s", err, out)
	}
}

// halted stops a process of the test's own for a moment.
func (h *desk) halted(p *rig.Child, meanwhile func()) {
	h.Helper()
	_ = p.Process.Signal(syscall.SIGSTOP)
	defer func() { _ = p.Process.Signal(syscall.SIGCONT) }()
	meanwhile()
}

// portrait keeps the picture of the documents: the popup on its background, in few colours.
func (h *desk) portrait(popup image.Rectangle) {
	const margin = 16 // as far as the popup stands from the display's edge
	file := filepath.Join(h.artifacts, "human.png")
	if err := savePalette(filepath.Join(h.artifacts, "popup.png"), h.shot(file), popup.Inset(-margin)); err != nil {
		h.Error(err)
	}
}
