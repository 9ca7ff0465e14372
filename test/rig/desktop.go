package rig

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
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/livhana/steward/escalate"
)

// Conflict is what protocol 000, test scenario 4, wants said.
const Conflict = "Critical error: Git conflict detected. Your input needed."

// FailedTask is the subject of what conflicts brings about.
var FailedTask = "p:task/" + TaskID(1)

const QuickLooks = "[supervisor]\nlook_every = \"200ms\"\n"

// Room is a human's desk: a session bus, perhaps a notification server, and tools that take for a voice.
type Room struct {
	*Rig
	Bus, Tools string
	Board      *board
}

func NewRoom(t *testing.T, config string) *Room {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	h := &Room{Rig: New(t, config)}
	run := filepath.Dir(h.Socket)
	h.Bus, h.Tools = "unix:path="+filepath.Join(run, "bus"), h.At("tools")
	h.WriteTools()
	// Nothing of this machine's own desktop may be reached: no other PATH, runtime folder or bus.
	h.Env = append(h.Env, "PATH="+h.Tools, "XDG_RUNTIME_DIR="+run, "DBUS_SESSION_BUS_ADDRESS="+h.Bus)
	h.Write("bus.conf", `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>`+h.Bus+`</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`)
	c := exec.Command(daemon, "--config-file="+h.At("bus.conf"), "--nofork", "--print-address")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = h.Logs
	h.Spawn(c)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon: %v", err)
	}
	return h
}

// WriteTools puts a synthesizer and a player into the daemon's PATH. What a player plays to the end is heard.
func (h *Room) WriteTools() {
	if err := os.Mkdir(h.Tools, 0o755); err != nil {
		h.Fatal(err)
	}
	h.Write("beep.wav", string(beep()))
	cat, sleep := Tool(h, "cat"), Tool(h, "sleep")
	h.Script("espeak-ng", fmt.Sprintf("for last; do :; done\n%s >'%s'\n%s '%s' >\"$last\"\n", cat, h.At("text"), cat, h.At("beep.wav")))
	h.Script("paplay", fmt.Sprintf("%s 0.3\n%s '%s' >>'%s'\n", sleep, cat, h.At("text"), h.At("heard")))
}

func Tool(h *Room, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		h.Fatal(err)
	}
	return path
}

func (h *Room) Script(name, text string) {
	if err := os.WriteFile(filepath.Join(h.Tools, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
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

// Heard lists the sentences that were played to the end.
func (h *Room) Heard() []string {
	data, _ := os.ReadFile(h.At("heard"))
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// board is a notification server: what hangs on it is on the screen.
type board struct {
	mu     sync.Mutex
	last   uint32
	up     map[uint32]string // titles
	Titles []string          // of every Notify
	// The buttons of the popups: what the server names them, and what stands on them.
	Buttons map[uint32][]string
	conn    *dbus.Conn
}

const BoardName = "org.freedesktop.Notifications"

// Serve hangs the board on the bus.
func (h *Room) Serve() {
	conn, err := dbus.Connect(h.Bus)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	h.Board = &board{up: map[uint32]string{}, Buttons: map[uint32][]string{}, conn: conn}
	if err := conn.Export(h.Board, "/org/freedesktop/Notifications", BoardName); err != nil {
		h.Fatal(err)
	}
	if reply, err := conn.RequestName(BoardName, 0); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
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
	b.Titles, b.up[replaces], b.Buttons[replaces] = append(b.Titles, title), title, actions
	return replaces, nil
}

func (b *board) CloseNotification(id uint32) *dbus.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.up, id)
	return nil
}

// Clear takes everything off the screen.
func (b *board) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.up)
}

// Press presses a button of the popup that says so, as the server reports it.
func (b *board) Press(words, label string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, title := range b.up {
		for n := 0; strings.Contains(title, words) && n+1 < len(b.Buttons[id]); n += 2 {
			if b.Buttons[id][n+1] == label {
				return b.conn.Emit("/org/freedesktop/Notifications", BoardName+".ActionInvoked", id, b.Buttons[id][n]) == nil
			}
		}
	}
	return false
}

// Shown counts the popups on the screen that say so, and told every message that said so.
func (b *board) Shown(words string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, title := range b.up {
		if strings.Contains(title, words) {
			n++
		}
	}
	return n
}

func (b *board) Told(words string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, title := range b.Titles {
		if strings.Contains(title, words) {
			n++
		}
	}
	return n
}

// Incident reads the incident about a subject from its file; the zero Incident while there is none.
func (h *Room) Incident(about string) escalate.Incident {
	files, _ := filepath.Glob(filepath.Join(h.State, "incidents", "*.json"))
	for _, file := range files {
		var i escalate.Incident
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &i) == nil && i.About == about {
			return i
		}
	}
	return escalate.Incident{}
}

// Carried reports whether a channel has, or has not, carried the incident.
func Carried(i escalate.Incident, channel string, ok bool) bool {
	for _, d := range i.Deliveries {
		begun := d.Result == escalate.ResultBegun || d.Result == escalate.ResultAgain
		if d.Channel == channel && d.OK == ok && !begun {
			return true
		}
	}
	return false
}

// Conflicts starts a daemon and has a task fail for good.
func (h *Room) Conflicts() *Child {
	h.Boot("p")
	h.Beats("p", 0.9)
	p := h.Start("p")
	h.Put(h.Task("p", TaskID(1), ".request.json"), RequestOf(TaskID(1), 1))
	h.Outcome("p", TaskID(1), "GIT_CONFLICT:fatal")
	return p
}

// Waited is until without a verdict.
func (h *Room) Waited(ok func() bool) bool {
	for end := time.Now().Add(Patience); !ok(); h.Pause(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// IncidentOf finds an incident by its words.
func (h *Room) IncidentOf(words string) escalate.Incident {
	files, _ := filepath.Glob(filepath.Join(h.State, "incidents", "*.json"))
	for _, file := range files {
		var i escalate.Incident
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &i) == nil && strings.Contains(i.Summary, words) {
			return i
		}
	}
	return escalate.Incident{}
}
