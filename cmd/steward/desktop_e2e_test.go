//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
)

// The real notification server under a real display, and a real voice, are in platform/desktop: TestHeadlessDesktop.

// conflict is what protocol 000, test scenario 4, wants said.
const conflict = "Critical error: Git conflict detected. Your input needed."

// failedTask is the subject of what conflicts brings about.
var failedTask = "p:task/" + taskID(1)

const quickLooks = "[supervisor]\nlook_every = \"200ms\"\n"

// room is a human's desk: a session bus, perhaps a notification server, and tools that take for a voice.
type room struct {
	*rig
	bus, tools string
	board      *board
}

func newRoom(t *testing.T, config string) *room {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	h := &room{rig: newRig(t, config)}
	run := filepath.Dir(h.socket)
	h.bus, h.tools = "unix:path="+filepath.Join(run, "bus"), h.at("tools")
	h.writeTools()
	// Nothing of this machine's own desktop may be reached: no other PATH, runtime folder or bus.
	h.env = append(h.env, "PATH="+h.tools, "XDG_RUNTIME_DIR="+run, "DBUS_SESSION_BUS_ADDRESS="+h.bus)
	h.write("bus.conf", `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>`+h.bus+`</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`)
	c := exec.Command(daemon, "--config-file="+h.at("bus.conf"), "--nofork", "--print-address")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = h.logs
	h.spawn(c)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon: %v", err)
	}
	return h
}

// writeTools puts a synthesizer and a player into the daemon's PATH. What a player plays to the end is heard.
func (h *room) writeTools() {
	if err := os.Mkdir(h.tools, 0o755); err != nil {
		h.Fatal(err)
	}
	h.write("beep.wav", string(beep()))
	cat, sleep := tool(h, "cat"), tool(h, "sleep")
	h.script("espeak-ng", fmt.Sprintf("for last; do :; done\n%s >'%s'\n%s '%s' >\"$last\"\n", cat, h.at("text"), cat, h.at("beep.wav")))
	h.script("paplay", fmt.Sprintf("%s 0.3\n%s '%s' >>'%s'\n", sleep, cat, h.at("text"), h.at("heard")))
}

func tool(h *room, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		h.Fatal(err)
	}
	return path
}

func (h *room) script(name, text string) {
	if err := os.WriteFile(filepath.Join(h.tools, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		h.Fatal(err)
	}
}

// beep is 0.3 s of sound as a synthesizer would write it.
func beep() []byte {
	const rate, samples = 8000, 2400
	wav := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), 16, 0, 0, 0, 1, 0, 1, 0)
	wav = binary.LittleEndian.AppendUint32(wav, rate)
	wav = binary.LittleEndian.AppendUint32(wav, 2*rate)
	wav = append(wav, 2, 0, 16, 0, 'd', 'a', 't', 'a')
	wav = binary.LittleEndian.AppendUint32(wav, 2*samples)
	for n := range samples {
		wav = binary.LittleEndian.AppendUint16(wav, uint16(int16(16000*(n/10%2*2-1))))
	}
	return wav
}

// heard lists the sentences that were played to the end.
func (h *room) heard() []string {
	data, _ := os.ReadFile(h.at("heard"))
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// board is a notification server: what hangs on it is on the screen.
type board struct {
	mu     sync.Mutex
	last   uint32
	up     map[uint32]string // titles
	titles []string          // of every Notify
	// The buttons of the popups: what the server names them, and what stands on them.
	buttons map[uint32][]string
	conn    *dbus.Conn
}

const boardName = "org.freedesktop.Notifications"

// serve hangs the board on the bus.
func (h *room) serve() {
	conn, err := dbus.Connect(h.bus)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	h.board = &board{up: map[uint32]string{}, buttons: map[uint32][]string{}, conn: conn}
	if err := conn.Export(h.board, "/org/freedesktop/Notifications", boardName); err != nil {
		h.Fatal(err)
	}
	if reply, err := conn.RequestName(boardName, 0); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		h.Fatal(reply, err)
	}
}

func (b *board) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return "board", "test", "1", "1.2", nil
}

func (b *board) GetCapabilities() ([]string, *dbus.Error) { return []string{"body", "actions"}, nil }

func (b *board) Notify(_ string, replaces uint32, _, title, _ string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if replaces == 0 {
		b.last++
		replaces = b.last
	}
	b.titles, b.up[replaces], b.buttons[replaces] = append(b.titles, title), title, actions
	return replaces, nil
}

func (b *board) CloseNotification(id uint32) *dbus.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.up, id)
	return nil
}

// clear takes everything off the screen.
func (b *board) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.up)
}

// press presses a button of the popup that says so, as the server reports it.
func (b *board) press(words, label string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, title := range b.up {
		for n := 0; strings.Contains(title, words) && n+1 < len(b.buttons[id]); n += 2 {
			if b.buttons[id][n+1] == label {
				return b.conn.Emit("/org/freedesktop/Notifications", boardName+".ActionInvoked", id, b.buttons[id][n]) == nil
			}
		}
	}
	return false
}

// shown counts the popups on the screen that say so, and told every message that said so.
func (b *board) shown(words string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, title := range b.up {
		if strings.Contains(title, words) {
			n++
		}
	}
	return n
}

func (b *board) told(words string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, title := range b.titles {
		if strings.Contains(title, words) {
			n++
		}
	}
	return n
}

// incident reads the incident about a subject from its file; the zero Incident while there is none.
func (h *room) incident(about string) escalate.Incident {
	files, _ := filepath.Glob(filepath.Join(h.state, "incidents", "*.json"))
	for _, file := range files {
		var i escalate.Incident
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &i) == nil && i.About == about {
			return i
		}
	}
	return escalate.Incident{}
}

// carried reports whether a channel has, or has not, carried the incident.
func carried(i escalate.Incident, channel string, ok bool) bool {
	for _, d := range i.Deliveries {
		begun := d.Result == escalate.ResultBegun || d.Result == escalate.ResultAgain
		if d.Channel == channel && d.OK == ok && !begun {
			return true
		}
	}
	return false
}

// conflicts starts a daemon and has a task fail for good.
func (h *room) conflicts() *child {
	h.boot("p")
	h.beats("p", 0.9)
	p := h.start("p")
	h.put(h.task("p", taskID(1), ".request.json"), requestOf(taskID(1), 1))
	h.outcome("p", taskID(1), "GIT_CONFLICT:fatal")
	return p
}

func TestDesktopCallsTheHumanOnce(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.serve()
	h.conflicts()
	failed := time.Now()
	h.until("the popup", func() bool { return h.board.shown(conflict) == 1 })
	popup := time.Since(failed)
	h.until("the sentence", func() bool { return len(h.heard()) == 1 })
	t.Logf("popup after %v, sentence spoken to its end after %v; the document allows 10 s", popup, time.Since(failed))
	h.until("the interruption is counted, once", func() bool {
		return strings.Contains(h.steward("goals", "-o", "json"), `"name": "voice_interruptions_per_task",
      "value": 1,`)
	})
	for n := 2; n <= 100; n++ {
		h.askAnew("p", taskID(1), n)
		again := resultOf(taskID(1), "GIT_CONFLICT:fatal")
		again["execution_time_seconds"] = n
		h.put(h.task("p", taskID(1), ".result.json"), again)
		h.until(fmt.Sprintf("failure %d is counted", n), func() bool { return h.incident(failedTask).Count == n })
	}
	if said := h.heard(); h.board.told("") != 1 || len(said) != 1 || said[0] != conflict+" Project p." {
		t.Errorf("100 identical failures: %d popups (%q), sentences %q; want one of each", h.board.told(""), h.board.titles, said)
	}
	h.steward("ack", h.incident(failedTask).Key)
	h.until("the popup is withdrawn", func() bool { return h.board.shown("") == 0 })
	if i := h.incident(failedTask); i.State != rules.Acked || i.Count != 100 {
		t.Errorf("after ack: %s, count %d; want acked, 100", i.State, i.Count)
	}
}

func TestDesktopWithoutScreen(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.conflicts()
	h.until("the sentence", func() bool { return len(h.heard()) == 1 && h.heard()[0] == conflict+" Project p." })
	h.until("both are on record", func() bool {
		i := h.incident(failedTask)
		return carried(i, "desktop", false) && carried(i, "speech", true)
	})
}

func TestDesktopWithoutVoice(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.script("paplay", "exit 1\n")
	h.serve()
	h.conflicts()
	h.until("the popup", func() bool { return h.board.shown(conflict) == 1 })
	h.until("both are on record", func() bool {
		i := h.incident(failedTask)
		return carried(i, "desktop", true) && carried(i, "speech", false)
	})
}

// TestDesktopComesBack: with screen and voice dead the incident waits; a new daemon finds it in the ledger.
func TestDesktopComesBack(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.script("paplay", "exit 1\n")
	p := h.conflicts()
	h.until("both failures are on record", func() bool {
		i := h.incident(failedTask)
		return carried(i, "desktop", false) && carried(i, "speech", false)
	})
	if i := h.incident(failedTask); i.State != rules.Raised {
		t.Errorf("nobody was reached, and the incident is %s", i.State)
	}
	h.shows(conflict, `"result": *"failed"`)
	h.serve()
	if os.Getenv("STEWARD_LONG") != "1" { // by itself the courier tries again after half a minute
		p.kill()
		h.start("p")
	}
	for range 3 { // three times the usual patience
		if h.waited(func() bool { return h.board.shown(conflict) == 1 }) {
			break
		}
	}
	h.until("the popup", func() bool { return h.board.shown(conflict) == 1 })
}

// TestDesktopAfterRestart: a new daemon shows an open incident again, without a second sentence, and a press of that
// popup's button is the answer. A daemon that ends in order takes its popups along.
func TestDesktopAfterRestart(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.serve()
	p := h.conflicts()
	h.until("the popup", func() bool { return h.board.shown(conflict) == 1 })
	h.until("the sentence is on record", func() bool { return carried(h.incident(failedTask), "speech", true) })
	p.kill()
	p = h.start("p")
	h.until("the second popup, beside that of the killed daemon", func() bool { return h.board.shown(conflict) == 2 })
	_ = p.Process.Signal(syscall.SIGTERM)
	<-p.ended
	h.until("the second popup is gone", func() bool { return h.board.shown(conflict) == 1 })
	h.board.clear()
	h.start("p")
	h.until("the third popup", func() bool { return h.board.shown(conflict) == 1 })
	if !h.board.press(conflict, "Leave it") {
		t.Fatalf("the buttons are %v", h.board.buttons)
	}
	h.until("the answer", func() bool { i := h.incident(failedTask); return i.Answer != nil && i.Answer.Via == escalate.ViaPopup })
	h.until("the popup is withdrawn", func() bool { return h.board.shown("") == 0 })
	if said := h.heard(); len(said) != 1 {
		t.Errorf("sentences %q", said)
	}
}

// waited is until without a verdict.
func (h *room) waited(ok func() bool) bool {
	for end := time.Now().Add(patience); !ok(); h.pause(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func TestDesktopRecovery(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks+"[heartbeat]\nlate = \"1s\"\ndead = \"2s\"\n")
	h.serve()
	h.boot("p")
	stop := h.beats("p", 0.9)
	h.start("p")
	h.shows(`"codex-cursor"[^}]*"state": *"alive"`)
	stop()
	const dead = "codex-cursor is dead"
	h.until("the popup", func() bool { return h.board.shown(dead) == 1 })
	h.beats("p", 0.9)
	h.until("it is withdrawn when the agent is back", func() bool { return h.board.shown(dead) == 0 })
	h.until("the incident is over", func() bool { return h.incident("p:agent/codex-cursor").State == rules.Resolved })
}

// TestDesktopButton: an agent's question stands on the screen with its own options; a press is the answer, and the agent
// finds it in its own protocol, once.
func TestDesktopButton(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.serve()
	h.boot("p")
	if err := os.MkdirAll(h.at("p/.agents/messages"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.start("p")
	h.write("p/.agents/messages/blocker.json", `{"message_type": "BLOCKER_ESCALATION", "task_id": "int_001", "from_agent": "INTEGRATIONS",
 "blocker_type": "clarification_needed", "severity": "high", "timestamp": "`+time.Now().UTC().Format(time.RFC3339)+`", "description": "Which database?",
 "options": ["Use production", "Use the staging copy"], "suggested_resolution": "2", "context": "", "escalate_to": "human"}`)
	h.until("the popup", func() bool { return h.board.shown("Which database?") == 1 })
	if h.board.press("Which database?", "Use my own") || !h.board.press("Which database?", "Use the staging copy") {
		t.Fatalf("the buttons are %v", h.board.buttons)
	}
	pressed := time.Now()
	resolutions := func() (all []string) {
		files, _ := filepath.Glob(h.at("p/.agents/messages/*.json"))
		for _, file := range files {
			if data, _ := os.ReadFile(file); strings.Contains(string(data), "BLOCKER_RESOLUTION") {
				all = append(all, string(data))
			}
		}
		return all
	}
	h.until("the resolution", func() bool { return len(resolutions()) == 1 })
	t.Logf("the agent could read the answer %v after the press", time.Since(pressed))
	if r := resolutions()[0]; !strings.Contains(r, "Use the staging copy") || strings.Contains(r, "Use production") {
		t.Errorf("the answer is %s", r)
	}
	h.until("the popup is withdrawn", func() bool { return h.board.shown("") == 0 })
	h.pause(time.Second)
	if n := len(resolutions()); n != 1 {
		t.Errorf("%d resolutions", n)
	}
	i := h.incidentOf("Which database?")
	if i.State != rules.Resolved || i.ResolvedBy != rules.ByAnswer || i.Answer.Via != escalate.ViaPopup || i.Answer.Carried.IsZero() {
		t.Errorf("the incident is %+v", i)
	}
}

// incidentOf finds an incident by its words.
func (h *room) incidentOf(words string) escalate.Incident {
	files, _ := filepath.Glob(filepath.Join(h.state, "incidents", "*.json"))
	for _, file := range files {
		var i escalate.Incident
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &i) == nil && strings.Contains(i.Summary, words) {
			return i
		}
	}
	return escalate.Incident{}
}
