package envelope

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// rest plays the supervisor's part for holds until nothing is left to do. It fails after several rounds.
func (s *site) rest() *protocol.Snapshot {
	s.T.Helper()
	for range 6 {
		snap, acted := s.look(), false
		for i := range snap.Tasks {
			k := &snap.Tasks[i]
			c := protocol.Change{}
			switch h := k.Hold; {
			case h == nil && k.Block != "" && k.Visible && k.Named == "":
				c = holdOf(k, s.Now)
			case h != nil && (h.Half || k.Block == ""):
				c = releaseOf(k.ID)
			case h != nil && !s.Now.Before(h.ReleaseBy.Add(-30*time.Second)):
				c = renewOf(k, s.Now)
				c.Subject.ID, c.ReleaseBy = k.ID, s.Now.Add(time.Minute)
			default:
				continue
			}
			acted = true
			s.Do(s.apply(c))
		}
		if !acted {
			return snap
		}
	}
	s.T.Fatal("it never rests")
	return nil
}

// sees reports which of the files an agent sees: "1-" means only the first.
func (s *site) sees(files ...string) string {
	var b strings.Builder
	for i, f := range files {
		if s.has(f) {
			b.WriteByte(byte('1' + i))
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

// A task that must wait is held with all its assignments, whenever they arrive, and released with all of them.
func TestAssignedTwice(t *testing.T) {
	for what, more := range map[string]fields{
		"deployment": assign("dep", "DEPLOYMENT"),
		"dependency": assign("dep", "DEVELOPER").with(fields{"blocked_by": []string{"sec"}}),
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, "")
			one, two := s.send(more), s.send(more.with(fields{"task_name": "anew"}))
			k := taskOf(s.rest(), "dep")
			if s.sees(one, two) != "--" || k.Hold == nil || k.Hold.Half || k.Visible || k.Title != "anew" {
				t.Fatalf("written together: %s, %+v", s.sees(one, two), k)
			}
			three := s.send(more)
			if k = taskOf(s.look(three), "dep"); k.Hold == nil || k.Hold.Half || !k.Visible {
				t.Errorf("one more is to be kept: %+v", k)
			}
			if s.rest(); s.sees(one, two, three) != "---" {
				t.Errorf("sent again: %s", s.sees(one, two, three))
			}
			if n := s.Read(noticeFile("dep")); !strings.Contains(n, one) || !strings.Contains(n, two) || !strings.Contains(n, three) {
				t.Error(n)
			}
			s.send(assign("sec", "SECURITY_AUDITOR"))
			s.send(verdict("sec", "APPROVED", false))
			if k = taskOf(s.rest(), "dep"); s.sees(one, two, three) != "123" || k.Hold != nil || !k.Visible || s.has(noticeFile("dep")) {
				t.Errorf("released: %s, %+v", s.sees(one, two, three), k)
			}
		})
	}
}

// Copies of a message are held too, and so is a message rewritten under the name of the held one.
func TestAssignedTwiceAlike(t *testing.T) {
	s := newSite(t, "")
	one := s.send(assign("dep", "DEPLOYMENT"))
	text := s.Read(one)
	s.rest()
	copied := messagesDir + "/copy.json"
	s.Write(copied, text)
	s.Do(os.Chtimes(s.Path(copied), s.Now, s.Now))
	if k := taskOf(s.rest(), "dep"); s.sees(one, copied) != "--" || k.Visible {
		t.Errorf("a copy: %s, %+v", s.sees(one, copied), k)
	}
	s.Write(one, strings.Replace(text, "Do dep", "Anew", 1))
	if k := taskOf(s.rest(), "dep"); s.sees(one, copied) != "--" || k.Hold == nil || !strings.Contains(s.Read(one+".held"), "Anew") || s.Read(holdsDir+"/dep.1.held") != text {
		t.Errorf("%s, %+v", s.sees(one, copied), k)
	}
	s.Write(one, assign("other", "DEPLOYMENT").String()) // another task, under the same file name
	if s.rest(); s.sees(one) != "-" || !s.has(holdsDir+"/dep.2.held") {
		t.Error("another task's deployment is seen")
	}
}

// A deployment stays one even if another agent is assigned its task, and whatever other agents say about it.
func TestReassigned(t *testing.T) {
	s := newSite(t, "")
	one := s.send(assign("dep", "DEPLOYMENT"))
	s.rest()
	s.send(assign("dep", "DEVELOPER"))
	for _, f := range []fields{ack("dep", "DEVELOPER"), escalate("dep", "DEVELOPER", "ORCHESTRATOR"), reject("dep"), complete("dep", "DEVELOPER", true),
		{"message_type": "TASK_APPROVAL", "task_id": "dep", "from_agent": "ORCHESTRATOR"}, ack("dep", "")} {
		snap := s.rest()
		k := taskOf(snap, "dep")
		if s.sees(one) != "-" || k.Hold == nil || k.Visible || k.Block == "" || k.Named != "" || k.Outcome != nil || !strings.HasPrefix(protocoltest.Codes(snap, "dep"), "security_gate critical, reassigned medium") {
			t.Fatalf("before %s: %+v, %s", f, k, protocoltest.Codes(snap, "dep"))
		}
		for _, f := range snap.Findings {
			if f.Code == "reassigned" && (!strings.Contains(f.Text, "DEPLOYMENT (001.json)") || !strings.Contains(f.Text, "DEVELOPER (002.json)")) {
				t.Error(f.Text)
			}
		}
		s.send(f)
	}
	if snap := s.rest(); s.sees(one) != "-" || !strings.HasPrefix(protocoltest.Codes(snap, "dep"), "security_gate critical") {
		t.Errorf("%+v, %s", taskOf(snap, "dep"), protocoltest.Codes(snap, "dep"))
	}
	s.send(ack("dep", "DEPLOYMENT"))
	if snap := s.rest(); s.sees(one) != "1" || !strings.HasPrefix(protocoltest.Codes(snap, "dep"), "security_bypassed critical") {
		t.Errorf("it had it all the same: %s, %s", s.sees(one), protocoltest.Codes(snap, "dep"))
	}
}

// An agent that signs with another name can finish its deployment.
func TestDeployerSignsOtherwise(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("sec", "SECURITY_AUDITOR"))
	s.send(verdict("sec", "APPROVED", false))
	s.send(assign("dep", "DEPLOYMENT"))
	s.send(ack("dep", "bot-7"))
	s.send(complete("dep", "bot-7", true))
	if snap := s.rest(); taskOf(snap, "dep").Outcome == nil || protocoltest.Codes(snap, "dep") != "" {
		t.Errorf("%+v", taskOf(snap, "dep"))
	}
}

// A notice whose held message is gone is removed by the next change, or because its task reports half a hold.
func TestStaleNotice(t *testing.T) {
	s := newSite(t, "")
	one := s.send(assign("dep", "DEPLOYMENT"))
	s.rest()
	s.Do(os.Remove(s.Path(one + ".held")))
	s.send(assign("other", "DEPLOYMENT"))
	if s.rest(); s.has(noticeFile("dep")) || !s.has(noticeFile("other")) {
		t.Error("a hold did not sweep")
	}
	s.Do(os.Rename(s.Path(messagesDir+"/002.json.held"), s.Path(messagesDir+"/002.json")))
	if k := taskOf(s.look(), "other"); k.Hold == nil || !k.Hold.Half {
		t.Errorf("%+v", k)
	}
	s.Write(noticeFile("nobody"), `{"task_id": "nobody", "reason": "blocked"}`)
	s.Write(noticeFile("theirs"), `{"task_id": `)
	s.Write(messagesDir+"/torn.json.held", `{"task_id": "nob`)
	_ = s.look()
	s.Do(s.apply(releaseOf("other")))
	if !s.has(noticeFile("nobody")) {
		t.Error("the notice of what cannot be read is gone")
	}
	s.Do(os.Remove(s.Path(messagesDir + "/torn.json.held")))
	_ = s.look()
	s.Do(s.apply(releaseOf("other")))
	if s.has(noticeFile("nobody")) || s.has(noticeFile("other")) || !s.has(noticeFile("theirs")) {
		t.Error("a release did not sweep")
	}
}

// A message that cannot be read or tracked, and may be a deployment, is always reported.
func TestUnreadableDeployments(t *testing.T) {
	s := newSite(t, "")
	for name, text := range map[string]string{
		"big": `{"x":"` + strings.Repeat("x", maxFile) + `"}`, "twice": `{"to_agent":"DEPLOYMENT","to_agent":"X"}`, "list": `[{"to_agent":"deployer"}]`,
		"utf8": "{\"to_agent\":\"Deploy\xff\"}", "torn": `{"to_agent": "DEPLOYMENT", `, "calm": `{"a":1,"a":2}`,
		"fine": assign("fine", "DEVELOPER").String(), "large": assign("large", "DEVELOPER").with(fields{"x": strings.Repeat("x", 2<<20)}).String(),
	} {
		s.Write(messagesDir+"/"+name+".json", text)
	}
	s.Do(os.Symlink("/nowhere/deploy.json", s.Path(messagesDir+"/link.json")))
	s.Write(logFile, "{\"to_agent\": \"DEPLOYMENT\",,}\nnonsense\n")
	_ = s.look()
	s.Now = s.Now.Add(jsonfile.BadAfter)
	check := func(snap *protocol.Snapshot) {
		t.Helper()
		var got []string
		for _, f := range snap.Findings {
			if f.Code == "security_gate" && f.Severity == protocol.Critical && f.Subject.Kind == protocol.KindProject {
				got = append(got, f.Field)
			}
		}
		if strings.Join(got, " ") != "big.json link.json list.json torn.json twice.json utf8.json messages.jsonl" || len(snap.Faults) != 9 || len(snap.Tasks) != 2 {
			t.Errorf("%q, faults %+v, %d tasks", got, snap.Faults, len(snap.Tasks))
		}
	}
	check(s.look())
	check(s.look("x"))
	s.Now = s.Now.Add(time.Hour)
	check(s.look())
	for _, name := range []string{"big", "twice", "list", "utf8", "torn", "link"} {
		s.Do(os.Remove(s.Path(messagesDir + "/" + name + ".json")))
	}
	s.Do(os.Remove(s.Path(logFile)))
	if snap := s.look(); len(snap.Findings) != 4 { // missing timestamps, missing acknowledgements
		t.Errorf("mended: %+v", snap.Findings)
	}
}

// Several recipients, and shapes of to_agent that the document does not define.
func TestRecipients(t *testing.T) {
	for _, c := range []struct {
		to   any
		want string
	}{
		{[]any{"DEVELOPER", "DEPLOYMENT"}, "DEPLOYMENT"}, {[]any{"QA", "DEVELOPER"}, "QA"}, {fields{"name": "Deployer", "x": 1}, "Deployer"},
		{fields{"DEPLOYMENT": true}, "DEPLOYMENT"}, {[]any{fields{"a": []any{"deploy"}}}, "deploy"}, {"DEVELOPER, DEPLOYMENT", "DEVELOPER, DEPLOYMENT"},
	} {
		s := newSite(t, "")
		one := s.send(assign("t", "x").with(fields{"to_agent": c.to}))
		k := taskOf(s.rest(), "t")
		if deploys := c.want != "QA"; k.Agent != c.want || (k.Block != "") != deploys || s.has(one) == deploys {
			t.Errorf("%v: %+v", c.to, k)
		}
	}
	s := newSite(t, file(messagesDir+"/dep_9.json", assign("", "DEPLOYMENT").String()))
	snap := s.rest()
	if k := taskOf(snap, "dep_9"); k.Hold == nil || k.Visible || protocoltest.FaultAt(snap, messagesDir+"/dep_9.json.held") == nil {
		t.Errorf("%+v, %+v", snap.Tasks, snap.Faults)
	}
}

// An approval that contradicts itself does not count (protocol 004, Security Response Format).
func TestContradiction(t *testing.T) {
	good := verdict("sec", "APPROVED", false)
	for text, f := range map[string]fields{
		"all_passed":      {"validation": fields{"all_passed": false}},
		"security_passed": {"validation": fields{"all_passed": true, "security_passed": "false"}},
		"critical_issues": {"output": fields{"critical_issues": []string{"SQL injection"}}},
		"status":          {"status": "failed"},
		"":                {"status": "", "output": fields{"critical_issues": []string{}}, "validation": fields{}},
		" ":               {"approval_status": "CONDITIONAL", "validation": fields{"all_passed": false}},
	} {
		s := newSite(t, "")
		one := s.send(assign("dep", "DEPLOYMENT"))
		s.send(assign("sec", "SECURITY_AUDITOR"))
		s.send(good.with(f))
		k := taskOf(s.rest(), "dep")
		text = strings.TrimSpace(text)
		if (k.Block == "") != (text == "") || text != "" && !strings.Contains(k.Block, "the approval contradicts itself: "+text) || s.has(one) != (text == "") {
			t.Errorf("%s: %q", text, k.Block)
		}
	}
}

// What a task waits for beyond its agent's control.
func TestAwaits(t *testing.T) {
	s := newSite(t, "")
	for _, c := range []struct {
		f    fields
		want string
	}{
		{assign("t", "DEVELOPER"), ""}, {ack("t", "DEVELOPER"), ""}, {escalate("t", "DEVELOPER", "human"), "its blocker to be resolved"}, {resolve("t"), ""},
		{complete("t", "DEVELOPER", false), "review by the orchestrator"}, {reject("t"), ""}, {complete("t", "DEVELOPER", true), ""},
	} {
		s.send(c.f)
		if k := taskOf(s.look(), "t"); k.Awaits != c.want {
			t.Errorf("after %s: %q", c.f["message_type"], k.Awaits)
		}
	}
}

// A file that differs from the judged version stays where it is, and the failed hold leaves no notice.
func TestHoldConflict(t *testing.T) {
	s := newSite(t, "")
	one := s.send(assign("dep", "DEPLOYMENT"))
	c := holdOf(taskOf(s.look(), "dep"), s.Now)
	s.send(assign("dep", "DEPLOYMENT").with(fields{"task_name": "anew"}))
	if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) || !s.has(one) || s.has(noticeFile("dep")) {
		t.Errorf("hold: %v", err)
	}
	if s.rest(); s.has(one) {
		t.Error("not held at the next look")
	}
}
