//go:build linux

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/godbus/dbus/v5"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
)

// presses is how many wrong ones there are.
func presses() int {
	if testing.Short() {
		return 1_000
	}
	return 10_000
}

// crowd presses whatever there is to press, and what there is not. None of it is an answer.
type crowd struct {
	*theatre
	stranger *dbus.Conn
	ear      string // the daemon's name on the bus
	chance   *rand.Rand
	popups   []sheet  // as they stand
	old      []string // tokens of popups that were replaced, or pressed
	asked    []escalate.Incident
	sent     map[string]int
}

// newCrowd connects a stranger to the bus, who finds out which connection is the daemon's: any program of this user can.
func newCrowd(h *theatre, daemon *rig.Child) *crowd {
	conn, err := dbus.Connect(h.Bus)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	seed := uint64(time.Now().UnixNano())
	h.Logf("seed %d", seed)
	c := &crowd{theatre: h, stranger: conn, chance: rand.New(rand.NewPCG(seed, 1)), sent: map[string]int{}}
	var names []string
	if err := conn.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
		h.Fatal(err)
	}
	for _, name := range names {
		var pid uint32
		err := conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, name).Store(&pid)
		if err == nil && int(pid) == daemon.Process.Pid && strings.HasPrefix(name, ":") {
			c.ear = name
		}
	}
	if c.ear == "" {
		h.Fatal("the daemon is not on the bus")
	}
	return c
}

// look reads the popups on the screen, as any program of this user can.
func (c *crowd) look(words ...string) {
	c.popups, c.asked = nil, nil
	for _, word := range words { // the popup as it was shown last, whether or not it stands
		list := slices.DeleteFunc(c.wall.record(), func(s sheet) bool { return !strings.Contains(s.Title, word) })
		c.popups, c.asked = append(c.popups, list[len(list)-1]), append(c.asked, c.IncidentOf(word))
	}
	standing := map[string]bool{}
	for _, s := range c.wall.screen() {
		for _, token := range s.Buttons {
			standing[token] = true
		}
	}
	c.old = nil
	for _, s := range c.wall.record() {
		for n := 0; n < len(s.Buttons); n += 2 {
			if !standing[s.Buttons[n]] {
				c.old = append(c.old, s.Buttons[n])
			}
		}
	}
}

// noise makes wrong presses of all kinds, and returns when the bus has passed them on.
func (c *crowd) noise(count int) {
	c.Helper()
	kinds := []struct {
		name  string
		press func(at int)
	}{
		{"a stranger with the right token", c.forge}, {"a stranger closes it", c.forgeClose}, {"a token of another popup", c.cross},
		{"an old token", c.stale}, {"no token", c.guess}, {"the action itself", c.raw}, {"no press at all", c.malformed}, {"over the socket", c.post},
	}
	for range count {
		k := kinds[c.chance.IntN(len(kinds))]
		k.press(c.chance.IntN(len(c.popups)))
		c.sent[k.name]++
	}
	for _, conn := range []*dbus.Conn{c.stranger, c.wall.conn} {
		if err := conn.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err; err != nil {
			c.Fatal(err)
		}
	}
}

func (c *crowd) say(conn *dbus.Conn, member string, args ...any) {
	c.Helper()
	if err := conn.Emit(wallPath, rig.BoardName+"."+member, args...); err != nil {
		c.Fatal(err)
	}
}

// whisper sends a stranger's signal to the daemon alone: what it sends to everybody, the bus does not even pass on.
func (c *crowd) whisper(member string, args ...any) {
	c.Helper()
	msg := &dbus.Message{Type: dbus.TypeSignal, Body: args, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(c.ear), dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(wallPath)),
		dbus.FieldInterface: dbus.MakeVariant(rig.BoardName), dbus.FieldMember: dbus.MakeVariant(member),
		dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(args...)),
	}}
	if call := c.stranger.Send(msg, nil); call.Err != nil {
		c.Fatal(call.Err)
	}
}

func (c *crowd) forge(at int) {
	s := c.popups[at]
	token := s.Buttons[2*c.chance.IntN(len(s.Buttons)/2)]
	if c.chance.IntN(2) == 0 {
		c.say(c.stranger, "ActionInvoked", s.ID, token)
		return
	}
	c.whisper("ActionInvoked", s.ID, token)
}

func (c *crowd) forgeClose(at int) { c.whisper("NotificationClosed", c.popups[at].ID, uint32(2)) }

func (c *crowd) cross(at int) {
	other := c.popups[(at+1)%len(c.popups)]
	c.say(c.wall.conn, "ActionInvoked", c.popups[at].ID, other.Buttons[0])
}

func (c *crowd) stale(at int) {
	if len(c.old) == 0 {
		c.guess(at)
		return
	}
	c.say(c.wall.conn, "ActionInvoked", c.popups[at].ID, c.old[c.chance.IntN(len(c.old))])
}

func (c *crowd) guess(at int) {
	c.say(c.wall.conn, "ActionInvoked", c.popups[at].ID, fmt.Sprint(c.chance.Uint64()))
}

func (c *crowd) raw(at int) {
	id := []string{"1", "2", "retry", "leave", "default", ""}[c.chance.IntN(6)]
	if c.chance.IntN(2) == 0 {
		id = fmt.Sprint(c.asked[at].Rev, " ", id)
	}
	c.say(c.wall.conn, "ActionInvoked", c.popups[at].ID, id)
}

func (c *crowd) malformed(at int) {
	id, token := c.popups[at].ID, c.popups[at].Buttons[0]
	args := [][]any{{}, {id}, {token}, {token, id}, {int32(id), token}, {uint64(id), token}, {id, []string{token}}}[c.chance.IntN(7)]
	c.say(c.wall.conn, "ActionInvoked", args...)
}

// post sends what no API should take: revisions that were, that will be and that never were, and options that are not offered.
func (c *crowd) post(at int) {
	i := c.asked[at]
	a := []status.Answer{{Option: i.Options[0].ID, Rev: i.Rev + 1 + c.chance.IntN(100)}, {Option: i.Options[0].ID, Rev: i.Asked - 1 - c.chance.IntN(3)*2},
		{Option: "none of these"}, {Option: ""}, {Option: "0", Rev: i.Rev}}[c.chance.IntN(5)]
	if a.Rev == 0 {
		a.Option = "nothing that is offered"
	}
	var refused *status.Error
	if err := c.answer(i, a); !errors.As(err, &refused) || refused.Code != status.CodeRefused {
		c.Fatalf("%+v for %s (rev %d, asked %d): %v", a, i.Summary, i.Rev, i.Asked, err)
	}
}

// caughtUp waits until the daemon has heard all that was said: it opens a popup only after it has read what came before.
func (c *crowd) caughtUp(n int) {
	c.Helper()
	c.fails(n)
	c.Until("the daemon has caught up", func() bool {
		i := c.IncidentOf(faultWords(n))
		return rig.Carried(i, "desktop", true)
	})
}

// unanswered checks that nothing has been answered.
func (c *crowd) unanswered() {
	c.Helper()
	for _, i := range c.incidents() {
		if i.Answer != nil || i.State == rules.Resolved {
			c.Errorf("answered by nobody: %s: %+v", i.Summary, i.Answer)
		}
	}
	if r, d := append(c.replies(1), c.replies(2)...), c.decisions(3); len(r)+len(d) > 0 {
		c.Errorf("replies %q, decisions %q", r, d)
	}
}

// TestChannelsPresses: among thousands of stale, double and forged presses the first true one is the answer, and the only one.
func TestChannelsPresses(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks)
	h.startBus()
	w := h.raiseWall(normal)
	daemon := h.Start(h.project)
	count, words := presses(), []string{questionWords(1), questionWords(2), faultWords(3)}
	h.asks(1, "Yes", "No", "Perhaps")
	h.asks(2, "Red", "Green", "Blue")
	h.fails(3)
	h.Until("the popups", func() bool { return len(w.screen()) == 3 })
	c := newCrowd(h, daemon)
	begin := time.Now()
	c.look(words...)
	c.noise(count * 3 / 10)
	c.caughtUp(4)
	c.unanswered()

	c.changeTheQuestion()
	c.look(words...)
	if len(c.old) == 0 {
		t.Error("there are no old tokens: the test has proved less than it says")
	}
	c.noise(count * 2 / 10)
	c.caughtUp(5)
	c.unanswered()

	c.answerAll()
	c.look(words...)
	c.noise(count * 5 / 10)
	c.caughtUp(6)
	t.Logf("%d wrong presses in %v: %v", count, time.Since(begin), c.sent)
	h.Pause(500 * time.Millisecond)
	c.judge()
}

// changeTheQuestion has task 3 fail in another way, under the popup that still speaks of the first: its buttons are of the past.
func (c *crowd) changeTheQuestion() {
	c.Helper()
	popup, _ := c.wall.shows(faultWords(3))
	c.AskAgain(c.project, rig.TaskID(3), 2)
	again := rig.ResultOf(rig.TaskID(3), "FAULT_N3:fatal")
	again["execution_time_seconds"] = 2
	c.Put(c.Task(c.project, rig.TaskID(3), ".result.json"), again)
	c.Until("the failure is counted", func() bool { return c.IncidentOf(faultWords(3)).Count == 2 })
	c.wall.press(popup.ID, popup.button("Run it again"))
	c.Until("the popup shows how it stands now", func() bool {
		s, shown := c.wall.shows(faultWords(3))
		return shown && s.button("Leave it") != "" && s.button("Leave it") != popup.button("Leave it")
	})
	c.wall.emit("ActionInvoked", popup.ID, popup.button("Run it again"))
	if i := c.IncidentOf(faultWords(3)); i.State != rules.Raised || timesLogged(c.theatre.Room.Rig, "a press was not taken") != 1 {
		c.Errorf("after a stale press: %+v", i)
	}
}

// answerAll answers the first question by a double press and others behind it, the second one by everybody at once, and
// the third, which needs it, by its new button.
func (c *crowd) answerAll() {
	c.Helper()
	first, second, third := c.popups[0], c.popups[1], c.popups[2]
	for _, label := range []string{"No", "No", "Yes", "Perhaps"} {
		c.wall.emit("ActionInvoked", first.ID, first.button(label))
	}
	var rush sync.WaitGroup
	var taken sync.Map
	for n := range 30 {
		rush.Go(func() {
			option := c.asked[1].Options[n%3]
			if err := c.answer(c.asked[1], status.Answer{Option: option.ID, Rev: c.asked[1].Rev}); err == nil {
				taken.Store(n, option.Label)
			}
		})
	}
	c.wall.emit("ActionInvoked", second.ID, second.button("Blue"))
	c.wall.press(third.ID, third.button("Leave it"))
	rush.Wait()
	c.Until("all are answered", func() bool {
		return len(c.replies(1)) > 0 && len(c.replies(2)) > 0 && len(c.decisions(3)) > 0
	})
	var winners []string
	taken.Range(func(_, label any) bool { winners = append(winners, label.(string)); return true })
	a := c.IncidentOf(questionWords(2)).Answer
	if len(winners) > 1 || len(winners) == 1 && (a.Via != escalate.ViaCommand || a.Label != winners[0]) || len(winners) == 0 && (a.Via != escalate.ViaPopup || a.Label != "Blue") {
		c.Errorf("%q were told that they had answered; the answer is %+v", winners, a)
	}
}

// judge holds what the agents find against what was answered.
func (c *crowd) judge() {
	c.Helper()
	if r := c.replies(1); len(r) != 1 || r[0] != "No" {
		c.Errorf("question 1: replies %q", r)
	}
	if r, a := c.replies(2), c.IncidentOf(questionWords(2)).Answer; len(r) != 1 || r[0] != a.Label {
		c.Errorf("question 2: replies %q, the answer is %+v", r, a)
	}
	if d := c.decisions(3); len(d) != 1 || d[0] != "leave" {
		c.Errorf("task 3: decisions %q", d)
	}
	for _, word := range []string{questionWords(1), questionWords(2), faultWords(3)} {
		if _, shown := c.wall.shows(word); shown {
			c.Errorf("the popup of what is answered stands: %s", word)
		}
		if n := opened(c.wall.record(), word); n > 2 {
			c.Errorf("%s was opened %d times", word, n)
		}
	}
	for n := 4; n <= 6; n++ {
		if i := c.IncidentOf(faultWords(n)); i.State != rules.Raised || len(c.decisions(n)) > 0 {
			c.Errorf("nobody has answered %s: %+v", i.Summary, i)
		}
	}
}

// TestChannelsDangerousOption: what is dangerous is on no button, and no press that names it counts.
func TestChannelsDangerousOption(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks+"[heartbeat]\nlate = \"1s\"\ndead = \"2s\"\n")
	h.startBus()
	w := h.raiseWall(normal)
	id := rig.TaskID(1)
	h.Put(h.Task(h.project, id, ".request.json"), rig.RequestOf(id, 1))
	h.still() // the last that is heard of the agent is that it works on the task
	(&rig.CodexClient{Dir: h.At(h.project), Manner: "naming", Free: 0.9, Task: id}).Beat()
	h.Start(h.project)
	const silent = "codex-cursor is"
	h.Until("the popup", func() bool { _, shown := w.shows(silent); return shown })
	popup, _ := w.shows(silent)
	i := h.IncidentOf(silent)
	n := 0
	for _, o := range i.Options {
		if o.Dangerous {
			n++
			if popup.button(o.Label) != "" || strings.Contains(strings.Join(popup.Buttons, " "), o.ID) {
				t.Errorf("a button for it: %q", popup.Buttons)
			}
			for _, token := range []string{o.ID, o.Label, fmt.Sprint(i.Rev, " ", o.ID), popup.Buttons[0] + " " + o.ID} {
				w.emit("ActionInvoked", popup.ID, token)
			}
		}
	}
	if n == 0 || len(popup.Buttons) == 0 {
		t.Fatalf("options %+v, buttons %q", i.Options, popup.Buttons)
	}
	w.press(popup.ID, popup.button("Wait"))
	h.Until("the true press is the answer", func() bool { a := h.IncidentOf(silent).Answer; return a != nil && a.Label == "Wait" })
	if !rig.There(h.Task(h.project, id, ".request.json")) {
		t.Error("the dead agent's task is gone")
	}
}
