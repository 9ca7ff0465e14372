package envelope

import (
	"os"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// clocked is a site to which a program writes with its own clock: to a file, or to the log if the name is empty.
type clocked struct {
	*site
	pen protocoltest.Pen
}

func (s *clocked) write(name string, f fields) {
	s.T.Helper()
	f = f.with(fields{"timestamp": s.pen.Text(s.Now)})
	if name == "" {
		file, err := os.OpenFile(s.Path(logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		s.Do(err)
		_, err = file.WriteString(f.String() + "\n")
		s.Do(err)
		s.Do(file.Close())
		s.Do(os.Chtimes(s.Path(logFile), s.Now, s.Now))
		return
	}
	s.Write(messagesDir+"/"+name, f.String())
	s.Do(os.Chtimes(s.Path(messagesDir+"/"+name), s.Now, s.Now))
}

// Whatever clock a program uses, in files or in the log, an acknowledgement becomes overdue, a deadline passes and a
// question reaches the operator on time by steward's clock.
func TestDueByAnyClock(t *testing.T) {
	for _, pen := range protocoltest.Pens() {
		for _, log := range []bool{false, true} {
			name := pen.Name + ", files"
			if log {
				name = pen.Name + ", log"
			}
			t.Run(name, func(t *testing.T) { dueByClock(t, pen, log, true) })
		}
	}
	for _, pen := range protocoltest.Zones() { // for messages older than the first scan, only the zone is in doubt
		t.Run("before our time, "+pen.Name, func(t *testing.T) { dueByClock(t, pen, false, false) })
	}
}

func dueByClock(t *testing.T, pen protocoltest.Pen, log, watched bool) {
	s := &clocked{newSite(t, ""), pen}
	s.write("000.json", ack("another", "DEVELOPER"))
	if watched {
		s.look()
	}
	assignment, question := "t.json", "q.json"
	if log {
		assignment, question = "", ""
	}
	s.write(assignment, assign("t", "DEVELOPER").with(fields{"deadline": pen.Text(s.Now.Add(time.Hour))}))
	s.write(question, escalate("u", "DEVELOPER", "ORCHESTRATOR"))
	sent := s.Now
	codes := func(after time.Duration, want string) {
		t.Helper()
		snap := s.at(sent.Add(after))
		if got := protocoltest.Codes(snap, "t"); got != want {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
		for _, plea := range snap.Questions {
			if off := plea.Due.Sub(sent.Add(testOptions.Escalate)); plea.Task == "u" && off.Abs() > jsonfile.ClockSlack+2*time.Second {
				t.Errorf("the question is due %v off", off)
			}
		}
	}
	codes(time.Second, "")
	codes(7*time.Minute, "")
	codes(13*time.Minute, "unacknowledged medium")
	codes(57*time.Minute, "unacknowledged medium")
	codes(63*time.Minute, "unacknowledged medium, deadline high")
}

// A deadline without a zone, in a message with one, has passed only when it has passed in every zone.
func TestDeadlineAlone(t *testing.T) {
	for _, pen := range protocoltest.Zones() {
		s := newSite(t, "")
		s.send(assign("t", "DEVELOPER").with(fields{"deadline": pen.Text(s.Now.Add(time.Hour))}))
		if got := protocoltest.Codes(s.at(s.Now.Add(59*time.Minute)), "t"); got != "unacknowledged medium" {
			t.Errorf("%s: an hour before: %q", pen.Name, got)
		}
		if got := protocoltest.Codes(s.at(s.Now.Add(28*time.Hour)), "t"); got != "unacknowledged medium, deadline high" {
			t.Errorf("%s: at last: %q", pen.Name, got)
		}
	}
}

// Messages of one second: those with fractions go by their time, the others by their type.
func TestOrderWithinASecond(t *testing.T) {
	at := func(id, fraction string, f fields) fields {
		return f.with(fields{"x": id, "timestamp": "2026-01-02T03:04:05" + fraction + "Z"})
	}
	for want, list := range map[string][]fields{
		"abcd": {at("d", ".300", ack("t", "X")), at("c", ".200", reject("t")), at("b", ".100", complete("t", "X", true)), at("a", "", assign("t", "X"))},
		"acbd": {at("d", "", resolve("t")), at("a", "", assign("t", "X")), at("b", ".400", escalate("t", "X", "human")), at("c", ".100", complete("t", "X", true))},
		"abc":  {at("c", "", complete("t", "X", true)), at("b", "", ack("t", "X")), at("a", "", assign("t", "X"))},
		"adbc": {at("d", ".500", assign("t", "X")), at("c", "", reject("t")), at("b", "", complete("t", "X", true)), at("a", ".100", ack("t", "X"))},
	} {
		names, all := map[*message]string{}, []*message{}
		for _, f := range list {
			m := parse(t, f.String())
			names[m], all = f["x"].(string), append(all, m)
		}
		order(all)
		got := ""
		for _, m := range all {
			got += names[m]
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
