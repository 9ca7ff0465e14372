package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// manner is how a wall treats its clients.
type manner int

const (
	normal  manner = iota
	full           // refuses, as GNOME's and others' do
	paused         // accepts, and shows nothing before the pause is over, as dunst does
	slow           // answers after 3 s
	hanging        // answers when its manner changes
)

// slowness is how long a slow wall takes.
const slowness = 3 * time.Second

const (
	wallPath  = "/org/freedesktop/Notifications"
	dunstName = "org.dunstproject.cmd0"
)

// wall is a notification server that misbehaves on request. It records every popup.
type wall struct {
	conn  *dbus.Conn
	props *prop.Properties
	out   io.Writer // the record of a wall in another process; may be nil

	mu      sync.Mutex
	manner  manner
	changed chan struct{} // closed when the manner changes
	last    uint32
	sheets  []sheet
}

// sheet is one entry of the record: a requested popup, or its removal.
type sheet struct {
	Op      string // "new", "in place", "gone", "refused"
	Wall    string // which life of the server
	ID      uint32
	Title   string
	Text    string
	Buttons []string
	From    string // the client, by its name on the bus
	At      time.Time
}

// up returns the popups still shown according to the record. A server's popups disappear with it.
func up(sheets []sheet) map[uint32]sheet {
	hang := map[uint32]sheet{}
	for n, s := range sheets {
		if n > 0 && s.Wall != sheets[n-1].Wall {
			clear(hang)
		}
		switch s.Op {
		case "new", "in place":
			hang[s.ID] = s
		case "gone":
			delete(hang, s.ID)
		}
	}
	return hang
}

// newWall connects a wall to the bus, under a name that distinguishes its lives.
func newWall(address, name string, out io.Writer) (*wall, error) {
	conn, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	w := &wall{conn: conn, out: out, changed: make(chan struct{})}
	w.note(sheet{Op: "life", Wall: name})
	if w.props, err = prop.Export(conn, wallPath, prop.Map{dunstName: {"paused": {Value: false}}}); err == nil {
		err = conn.Export(w, wallPath, rig.BoardName)
	}
	if err == nil {
		err = w.watchClients()
	}
	if err == nil {
		err = w.take()
	}
	if err != nil {
		conn.Close()
	}
	return w, err
}

// wallMain is a notification server as a process of its own, which can be killed: wall BUS.
func wallMain() {
	record, err := os.OpenFile("wall.jsonl", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	w, err := newWall(os.Args[1], fmt.Sprint(os.Getpid(), " ", time.Now().UnixNano()), record)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("up")
	go func() { // every line is a press: id and token
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			id, token, _ := strings.Cut(in.Text(), " ")
			n, _ := strconv.Atoi(id)
			w.press(uint32(n), token)
		}
	}()
	<-w.conn.Context().Done()
}

// watchClients removes the popups of a client that has left the bus, as GNOME does.
func (w *wall) watchClients() error {
	changes := make(chan *dbus.Signal, 1000)
	w.conn.Signal(changes)
	go func() { // until the connection ends
		for s := range changes {
			if s.Name != "org.freedesktop.DBus.NameOwnerChanged" || len(s.Body) != 3 || s.Body[2] != "" {
				continue
			}
			w.mu.Lock()
			for id, popup := range up(w.sheets) {
				if popup.From == s.Body[0] {
					w.remove(id)
				}
			}
			w.mu.Unlock()
		}
	}()
	return w.conn.AddMatchSignal(dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"))
}

func (w *wall) take() error {
	reply, err := w.conn.RequestName(rig.BoardName, dbus.NameFlagDoNotQueue)
	if err == nil && reply != dbus.RequestNameReplyPrimaryOwner {
		err = fmt.Errorf("the name is taken: %v", reply)
	}
	return err
}

// restart gives the name up and takes it again: the screen is empty, and ids start over.
func (w *wall) restart(name string) error {
	if _, err := w.conn.ReleaseName(rig.BoardName); err != nil {
		return err
	}
	w.mu.Lock()
	w.last = 0
	w.note(sheet{Op: "life", Wall: name})
	w.mu.Unlock()
	return w.take()
}

func (w *wall) behave(m manner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manner = m
	close(w.changed)
	w.changed = make(chan struct{})
	w.props.SetMust(dunstName, "paused", m == paused)
}

// note records a sheet before any client is told of it. The caller holds mu.
func (w *wall) note(s sheet) {
	if s.At = time.Now(); s.Wall == "" {
		s.Wall = w.sheets[len(w.sheets)-1].Wall
	}
	w.sheets = append(w.sheets, s)
	if w.out != nil {
		line, _ := json.Marshal(s)
		_, _ = w.out.Write(append(line, '\n'))
	}
}

func (w *wall) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return "dunst", "test", "1", "1.2", nil
}

func (w *wall) GetCapabilities() ([]string, *dbus.Error) { return []string{"body", "actions"}, nil }

func (w *wall) Notify(from dbus.Sender, _ string, replaces uint32, _, title, text string, buttons []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	w.mu.Lock()
	manner, changed := w.manner, w.changed
	w.mu.Unlock()
	switch manner {
	case slow:
		<-time.After(slowness)
	case hanging:
		<-changed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := sheet{Op: "new", ID: replaces, Title: title, Text: text, Buttons: buttons, From: string(from)}
	if manner == full {
		s.Op = "refused"
		w.note(s)
		return 0, dbus.NewError(rig.BoardName+".Error.ExcessNotificationGeneration", []any{"too many similar notifications in quick succession"})
	}
	if _, stands := up(w.sheets)[s.ID]; stands {
		s.Op = "in place"
	}
	if s.ID == 0 {
		w.last++
		s.ID = w.last
	}
	w.note(s)
	return s.ID, nil
}

func (w *wall) CloseNotification(id uint32) *dbus.Error {
	if !w.drop(id) {
		return dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", []any{"no such popup"})
	}
	w.emit("NotificationClosed", id, uint32(3))
	return nil
}

func (w *wall) drop(id uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(id)
}

// remove takes a popup off the screen. The caller holds mu.
func (w *wall) remove(id uint32) bool {
	_, stands := up(w.sheets)[id]
	if stands {
		w.note(sheet{Op: "gone", ID: id})
	}
	return stands
}

func (w *wall) emit(member string, args ...any) {
	_ = w.conn.Emit(wallPath, rig.BoardName+"."+member, args...)
}

// press reports the press of a button, and closes its popup before the next message is taken, as servers do.
func (w *wall) press(id uint32, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emit("ActionInvoked", id, token)
	if w.remove(id) {
		w.emit("NotificationClosed", id, uint32(2))
	}
}

// record returns every recorded sheet.
func (w *wall) record() []sheet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sheets)
}

// screen gives what a human sees, in the order of its ids: nothing while the wall is paused.
func (w *wall) screen() []sheet {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.manner == paused {
		return nil
	}
	hang := up(w.sheets)
	var list []sheet
	for _, id := range slices.Sorted(maps.Keys(hang)) {
		list = append(list, hang[id])
	}
	return list
}

// shows finds the popup with that text on the screen.
func (w *wall) shows(words string) (sheet, bool) { return saying(w.screen(), words) }

func saying(list []sheet, words string) (sheet, bool) {
	n := slices.IndexFunc(list, func(s sheet) bool { return strings.Contains(s.Title, words) })
	if n < 0 {
		return sheet{}, false
	}
	return list[n], true
}

// opened counts the windows ever opened with such a title.
func opened(list []sheet, words string) (n int) {
	for _, s := range list {
		if s.Op == "new" && strings.Contains(s.Title, words) {
			n++
		}
	}
	return n
}

// button is the token of the button with that label; "" without one.
func (s sheet) button(label string) string {
	for n := 0; n+1 < len(s.Buttons); n += 2 {
		if s.Buttons[n+1] == label {
			return s.Buttons[n]
		}
	}
	return ""
}

// TestWallShowsWhatItShould checks what the other tests assume about the stand-in.
func TestWallShowsWhatItShould(t *testing.T) {
	t.Parallel()
	w := &wall{sheets: []sheet{{Op: "life", Wall: "1"}}}
	hang := func(replaces uint32, title string) uint32 {
		id, _ := w.Notify("", "", replaces, "", title, "", nil, nil, 0)
		return id
	}
	a, b := hang(0, "a"), hang(0, "b")
	if again := hang(a, "c"); a == b || again != a || len(w.screen()) != 2 || opened(w.record(), "") != 2 {
		t.Errorf("popups %d, %d and %d; screen %+v", a, b, again, w.screen())
	}
	if !w.drop(b) || w.drop(b) {
		t.Error("a popup goes once")
	}
	w.manner = full
	if _, err := w.Notify("", "", 0, "", "d", "", nil, nil, 0); err == nil || !strings.HasSuffix(err.Name, "ExcessNotificationGeneration") {
		t.Error(err)
	}
	if _, shown := w.shows("c"); !shown || len(w.screen()) != 1 {
		t.Errorf("screen %+v", w.screen())
	}
	w.note(sheet{Op: "life", Wall: "2"})
	if len(w.screen()) != 0 {
		t.Errorf("popups outlive their server: %+v", w.screen())
	}
}
