//go:build linux

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
)

// fate is what becomes of one incident.
type fate struct {
	n        int
	question bool
	end      string // how it is to end: "files", "answer", "press", "ack", or not at all
	due      int    // the round in which it ends
	tries    int
	done     bool
}

func (f *fate) words() string {
	if f.question {
		return questionWords(f.n)
	}
	return faultWords(f.n)
}

// ledger is all incidents at one moment.
type ledger []escalate.Incident

func (l ledger) about(f *fate) escalate.Incident {
	for _, i := range l {
		if strings.Contains(i.Summary, f.words()) {
			return i
		}
	}
	return escalate.Incident{}
}

// option is the answer that is given, by id and by label.
func (f *fate) option() (id, label string) {
	if f.question {
		return "2", "No"
	}
	return "leave", "Leave it"
}

// mayhem is a stage whose props are killed, each at any moment, while incidents come and go.
type mayhem struct {
	*theatre
	daemon, bus, screen *rig.Child
	hand                io.Writer // presses buttons
	rounds              int
	fates               []*fate
	kills               map[string]int
	ended               map[string]int
}

// tortureTimes have every incident told of at once and never again: whatever comes a second time is a repeat.
const tortureTimes = `
[supervisor]
look_every = "500ms"
[escalate.ladder.critical]
speech = ["0s"]
every = "0s"
times = 0
then = "0s"
[escalate.ladder.high]
speech = []
every = "0s"
times = 0
then = "0s"
`

func TestTortureChannels(t *testing.T) {
	rounds := 50
	if os.Getenv("STEWARD_LONG") == "1" {
		rounds = 1000
	}
	t.Parallel()
	m := &mayhem{theatre: newTheatre(t, tortureTimes), rounds: rounds, kills: map[string]int{}, ended: map[string]int{}}
	m.Script("paplay", fmt.Sprintf("echo $$ >'%[1]s'\n%[2]s 0.3\n%[3]s '%[4]s' >>'%[5]s'\n",
		m.At("speaker"), rig.Tool(m.Room, "sleep"), rig.Tool(m.Room, "cat"), m.At("text"), m.At("heard")))
	m.bus = m.startBus()
	m.startScreen()
	m.daemon = m.Run(m.project)
	for n := range rounds {
		m.round(n)
	}
	m.calm()
	m.judge()
	for _, end := range []string{"files", "answer", "press", "ack"} {
		if m.ended[end] == 0 {
			t.Logf("nothing ended by %s: the test has proved less than it says", end)
		}
	}
}

// startScreen starts a wall, in the place of one that died.
func (m *mayhem) startScreen() {
	m.Helper()
	c := exec.Command("wall", m.theatre.Room.Bus)
	c.Dir, c.Env = m.Dir, []string{"TMPDIR=" + m.Dir, "PATH=" + m.Tools}
	out, err := c.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if m.hand, err = c.StdinPipe(); err != nil {
		m.Fatal(err)
	}
	c.Stderr = m.Logs
	m.screen = m.Spawn(c)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		m.Fatalf("the wall: %q %v", line, err)
	}
}

// sheets reads the record of all walls.
func (m *mayhem) sheets() (list []sheet) {
	data, _ := os.ReadFile(m.At("wall.jsonl"))
	for line := range bytes.Lines(data) {
		var s sheet
		if json.Unmarshal(line, &s) == nil { // else it is the last word of one that was killed
			list = append(list, s)
		}
	}
	return list
}

// round has something happen, kills something at any moment after that, and starts it again.
func (m *mayhem) round(n int) {
	if n%2 == 0 {
		m.bring(n)
	}
	m.carryOn(n)
	m.Pause(rand.N(400 * time.Millisecond))
	if n%10 == 4 { // long enough for what was lost to come back, to be answered, or to be lost again
		m.Pause(2500 * time.Millisecond)
		m.carryOn(n)
		m.Pause(rand.N(200 * time.Millisecond))
	}
	if m.ambush(n) {
		return
	}
	victims := []string{"daemon", "daemon", "daemon", "voice", "voice", "screen", "bus", "daemon and screen"}
	m.kill(victims[rand.IntN(len(victims))])
}

// ambush kills the daemon while it takes an answer: what is in the ledger by then is for the next one to write.
func (m *mayhem) ambush(round int) bool {
	list := ledger(m.incidents())
	for _, f := range m.fates {
		i := list.about(f)
		if f.end != "answer" || f.done || f.due > round || i.State != rules.Raised || !m.Answers() {
			continue
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			id, _ := f.option()
			_ = m.answer(i, status.Answer{Option: id, Rev: i.Rev}) // the ledger tells what came of it
		}()
		m.Pause(rand.N(25 * time.Millisecond))
		m.kill("daemon")
		<-asked
		return true
	}
	return false
}

// bring makes a new incident, every other one a question.
func (m *mayhem) bring(n int) {
	f := &fate{n: n + 1, question: n%4 == 0, due: n + 2 + rand.IntN(12), end: []string{"files", "answer", "press", "ack", ""}[n/2%5]}
	if f.end == "press" {
		f.due = n
	}
	if f.end == "" && n < m.rounds-50 { // only the last ones stay open: a screen has room for so many
		f.end, f.due = "answer", n+20
	}
	m.fates = append(m.fates, f)
	if f.question {
		m.asks(f.n, "Yes", "No")
		return
	}
	m.fails(f.n)
}

func (m *mayhem) kill(victim string) {
	m.Helper()
	if victim == "voice" && !m.killVoice() {
		victim = "daemon"
	}
	m.kills[victim]++
	switch victim {
	case "daemon", "daemon and screen":
		if !m.daemon.Alive() {
			m.Fatal("the daemon had ended by itself")
		}
		m.daemon.Kill()
		if victim != "daemon" {
			m.screen.Kill()
			m.startScreen()
		}
		m.daemon = m.Run(m.project)
	case "screen":
		m.screen.Kill()
		m.startScreen()
	case "bus":
		m.bus.Kill()
		m.screen.Kill() // it ends with its bus, and perhaps a little later
		m.bus = m.startBus()
		m.startScreen()
	}
}

// killVoice kills who is speaking now, or begins to soon. The number is the player's own only while its command line says so.
func (m *mayhem) killVoice() bool {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); m.Pause(10 * time.Millisecond) {
		if m.killSpeaker() {
			return true
		}
	}
	return false
}

func (m *mayhem) killSpeaker() bool {
	text, _ := os.ReadFile(m.At("speaker"))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return false
	}
	line, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
	return bytes.Contains(line, []byte(filepath.Join(m.Tools, "paplay"))) && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// carryOn ends those incidents whose time has come, as far as that goes at this moment.
func (m *mayhem) carryOn(round int) (left int) {
	list := ledger(m.incidents())
	for _, f := range m.fates {
		if f.done || f.end == "" {
			continue
		}
		if left++; f.due > round {
			continue
		}
		if i := list.about(f); i.Key != "" && (f.end != "answer" || i.Answer != nil || round > f.due+3) && m.finish(f, i) {
			f.done = true
			m.ended[f.end]++
		}
	}
	return left
}

// finish does what ends an incident. What was asked of a daemon that died over it may have happened: the ledger tells.
func (m *mayhem) finish(f *fate, i escalate.Incident) bool {
	id, label := f.option()
	switch f.tries++; f.end {
	case "files":
		if f.question {
			m.settles(f.n)
		} else {
			m.AskAgain(m.project, rig.TaskID(f.n), 2)
			m.Outcome(m.project, rig.TaskID(f.n), "completed")
		}
		return true
	case "ack":
		ctx, cancel := context.WithTimeout(m.Context(), rig.Patience)
		defer cancel()
		return m.client.Post(ctx, "/v1/incidents/"+i.Key+"/ack", nil, nil) == nil || i.State == rules.Acked
	case "press":
		s, shown := onScreen(up(m.sheets()), f.words())
		if token := s.button(label); shown && token != "" && i.State == rules.Raised {
			fmt.Fprintln(m.hand, s.ID, token)
		}
		if f.tries > 5 { // it has no popup of its own
			f.end = "answer"
		}
		return i.Answer != nil
	}
	err := m.answer(i, status.Answer{Option: id, Rev: i.Rev})
	var refused *status.Error
	if errors.As(err, &refused) && refused.Code == status.CodeRefused && i.Answer == nil {
		m.Logf("%s: %v", i.Summary, err)
	}
	return i.Answer != nil
}

// onScreen finds the popup that says so; good news is none.
func onScreen(hang map[uint32]sheet, words string) (sheet, bool) {
	for _, s := range hang {
		if strings.Contains(s.Title, words) && !strings.HasPrefix(s.Title, "Over: ") {
			return s, true
		}
	}
	return sheet{}, false
}

// calm ends the killing, and waits until nothing more is owed to anybody. In the short form the daemon starts once more,
// so that the test need not wait for automatic retries.
func (m *mayhem) calm() {
	m.Helper()
	if os.Getenv("STEWARD_LONG") != "1" {
		m.kill("daemon")
	}
	m.Until("the daemon answers", m.Answers)
	m.Until("all incidents are there", func() bool {
		list := ledger(m.incidents())
		return !slices.ContainsFunc(m.fates, func(f *fate) bool { return list.about(f).Key == "" })
	})
	m.Until("all has ended that was to end", func() bool { return m.carryOn(1<<30) == 0 })
	for range 4 {
		if m.Waited(func() bool { return len(m.owed()) == 0 }) {
			break
		}
	}
	m.Pause(3 * time.Second)
	for _, trouble := range m.owed() {
		m.Error(trouble)
	}
}

// owed lists what is still to be done.
func (m *mayhem) owed() (trouble []string) {
	hang, list := up(m.sheets()), ledger(m.incidents())
	summary, summed := onScreen(hang, "more incidents")
	if summed && !slices.ContainsFunc(list, onSummary) {
		trouble = append(trouble, "a summary of nothing stands: "+summary.Text)
	}
	for _, f := range m.fates {
		i := list.about(f)
		_, stands := onScreen(hang, f.words())
		switch {
		case i.State == rules.Raised && !proved(i):
			trouble = append(trouble, "nobody was told of "+i.Summary)
		case i.State == rules.Raised && onItsOwn(i) && !stands:
			trouble = append(trouble, "it is open, and its popup is gone: "+i.Summary)
		case i.State != rules.Raised && stands:
			trouble = append(trouble, fmt.Sprintf("it is %s, and its popup stands: %s", i.State, i.Summary))
		case f.end == "files" && i.State != rules.Resolved, i.Answer != nil && i.Answer.Carried.IsZero():
			trouble = append(trouble, "not settled: "+i.Summary)
		}
	}
	return trouble
}

// onSummary reports whether an open incident was shown on a popup that is not its own.
func onSummary(i escalate.Incident) bool {
	return i.State == rules.Raised && slices.ContainsFunc(i.Deliveries, func(d escalate.Delivery) bool { return d.Popup != "" && d.Popup != i.Key })
}

// onItsOwn reports whether an open incident was last shown on a popup of its own.
func onItsOwn(i escalate.Incident) bool {
	own := false
	for _, d := range i.Deliveries {
		if d.OK && d.Popup != "" {
			own = d.Popup == i.Key
		}
	}
	return own
}

// judge holds what is on record against what was promised: every popup stands once; beside what a new server or a new
// daemon needs, and however often which part was killed, each incident is shown and spoken once too often at most.
func (m *mayhem) judge() {
	m.Helper()
	sheets, list, repeats := m.sheets(), ledger(m.incidents()), 0
	hang := up(sheets)
	for _, f := range m.fates {
		i := list.about(f)
		m.judgeAnswer(f, i)
		standing := 0
		for _, s := range hang {
			if s.Title == i.Project+": "+i.Summary {
				standing++
			}
		}
		again, said := repeated(sheets, f.words()), m.said(f.words())
		if standing > 1 || again > 1 || said > 2 {
			m.Errorf("%s: %d popups stand, %d too many were opened, and it was spoken %d times\ndeliveries %+v", i.Summary, standing, again, said, i.Deliveries)
		}
		repeats += again + max(0, said-1)
	}
	m.Logf("kills %v, incidents %d, ended %v, repeats %d", m.kills, len(m.fates), m.ended, repeats)
}

// repeated counts the windows that one daemon opened for an incident although this server had shown it.
func repeated(sheets []sheet, words string) (again int) {
	lives := map[string]int{}
	for _, s := range sheets {
		if s.Op == "new" && strings.Contains(s.Title, words) && !strings.HasPrefix(s.Title, "Over: ") {
			if life := s.Wall + s.From; lives[life] > 0 {
				again++
			} else {
				lives[life]++
			}
		}
	}
	return again
}

// judgeAnswer checks that a taken answer has been written once, and an unanswered question never.
func (m *mayhem) judgeAnswer(f *fate, i escalate.Incident) {
	m.Helper()
	want := []string(nil)
	if a := i.Answer; a != nil {
		if want = []string{a.Label}; !f.question {
			want = []string{a.Option}
		}
	}
	got := m.decisions(f.n)
	if f.question {
		got = m.replies(f.n)
	}
	if !slices.Equal(got, want) {
		m.Errorf("%s (%s): replies %q, want %q", f.words(), f.end, got, want)
	}
}
