package agentstatus

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

const decisionPath = Base + "/" + tasksDir + "/task_" + taskID + decisionExt

// decisionText is the complete document that agents find.
func decisionText(option, at, incident string) string {
	return fmt.Sprintf(`{
  "task_id": "%s",
  "decision": "%s",
  "label": "Run it again",
  "rationale": "the disk has room now",
  "decided_by": "jesse",
  "decided_at": "%s",
  "incident": "%s",
  "source_agent": "steward"
}
`, taskID, option, at, incident)
}

func answerTo(ref protocol.Ref, incident, option string, at time.Time) protocol.Change {
	return protocol.Change{Verb: protocol.VerbAnswer, Subject: protocol.Subject{Kind: protocol.KindTask, ID: taskID}, Judged: protocol.Judged{Ref: ref}, Agent: codex,
		Reason: protocol.ReasonOperator, Why: "jesse answered: Run it again",
		Answer: &protocol.Answer{Key: incident, Option: option, Label: "Run it again", Why: "the disk has room now", By: "jesse", At: at}}
}

func answerCases() []protocoltest.Case {
	request := around + file(requestPath, requestText)
	failed := request + file(resultPath, resultText)
	archived := around + file(archiveReq, requestText) + file(archiveRes, resultText)
	answer := func(option string, back time.Duration) func(*protocol.Snapshot, time.Time) protocol.Change {
		return onTask(func(t *protocol.Task, now time.Time) protocol.Change {
			ref := t.Ref
			if t.Outcome != nil {
				ref = t.Outcome.Ref
			}
			return answerTo(ref, "5f0c7d21", option, now.Add(-back))
		})
	}
	first := func(back time.Duration) func(testing.TB, protocol.Adapter, string, time.Time) {
		return func(t testing.TB, a protocol.Adapter, _ string, now time.Time) {
			apply(t, a, now, func(k *protocol.Task) protocol.Change { return answerTo(k.Ref, "216a33f4", "leave", now.Add(-back)) })
		}
	}
	decided := shows("the decision in the log", func(t *protocol.Task) bool { return slices.Contains(t.Logged, "task_decided") })
	const unseen = "a decision is for agents: no policy reads it"
	stands := file(decisionPath, decisionText("retry", "{{now}}", "5f0c7d21"))
	return []protocoltest.Case{{
		Name: "answer about a task that failed", Verb: protocol.VerbAnswer, Files: failed, Change: answer("retry", 0), Shows: decided,
		Want: stands, Moves: map[string]string{decisionPath: resultPath}, Free: []string{logPath}, Meddle: meddle(resultPath, "no file", "no files"),
	}, {
		Name: "answer about a task in the archive", Verb: protocol.VerbAnswer, Files: archived, Change: answer("retry", 0), Shows: decided,
		Want: stands, Moves: map[string]string{decisionPath: archiveRes}, Free: []string{logPath}, Meddle: meddle(archiveRes, "no file", "no files"),
	}, {
		Name: "answer about a task that is held", Verb: protocol.VerbAnswer, Files: request, Before: holdFirst, Change: answer("retry", 0), Shows: decided,
		Want: stands, Moves: map[string]string{decisionPath: heldPath}, Free: []string{logPath}, Meddle: meddle(heldPath, "ship it", "ship it now"),
	}, {
		Name: "answer in the human's own words", Verb: protocol.VerbAnswer, Files: request, Change: answer("", 0), Shows: decided,
		Want: file(decisionPath, decisionText("", "{{now}}", "5f0c7d21")), Free: []string{logPath},
		Meddle: func(dir string) error { return os.Remove(filepath.Join(dir, requestPath)) },
	}, {
		Name: "answer after an older one", Verb: protocol.VerbAnswer, Files: failed, Before: first(time.Hour), Change: answer("retry", 0), Unseen: unseen,
		Want:  stands + file(attempt(1, "decision"), decisionText("leave", "{{now-1h}}", "216a33f4")),
		Moves: map[string]string{attempt(1, "decision"): decisionPath}, Free: []string{logPath},
		Meddle: meddle(decisionPath, `"source_agent": "steward"`, `"source_agent": "codex-cursor"`),
	}, {
		Name: "answer that comes after a newer one", Verb: protocol.VerbAnswer, Files: failed, Before: first(0), Change: answer("retry", time.Hour), Unseen: unseen,
		Want: file(attempt(1, "decision"), decisionText("retry", "{{now-1h}}", "5f0c7d21")), Free: []string{logPath},
		Meddle: meddle(resultPath, "no file", "no files"),
	}}
}

// No possible name of a decision file matches the searches of protocol 000's clients or parses as a task file here.
func TestADecisionIsNoTaskFile(t *testing.T) {
	for _, id := range []string{taskID, "a.request", "a.result.json", "a.request.json.held", "a.deferred"} {
		name := path.Base(decisionFile(id))
		for _, glob := range []string{"task_*.request.json", "task_*.result.json", "task_*.progress.json", "*.status.json"} {
			if found, err := path.Match(glob, name); found || err != nil {
				t.Errorf("%s finds %s (%v)", glob, name, err)
			}
		}
		if got, _, ok := parseTaskFile(name); ok {
			t.Errorf("%s is taken for a file of task %q", name, got)
		}
	}
}

// A scan ignores decision files: a decision without its task, in the archive, or with invalid JSON.
func TestADecisionAlone(t *testing.T) {
	for _, text := range []string{"", "{", decisionText("retry", "2026-01-02T03:04:05Z", "5f0c7d21"), `{"task_id": "another"}`} {
		s := newSite(t, around)
		want := s.look()
		inArchive := Base + "/" + archiveDir + "/task_" + taskID + decisionExt
		s.Write(decisionPath, text)
		s.Write(inArchive, text)
		for _, snap := range []*protocol.Snapshot{s.look(decisionPath, inArchive), s.look(), s.at(s.Now.Add(time.Hour))} {
			if got := protocoltest.Describe(snap); len(snap.Tasks)+len(snap.Faults) > 0 || len(snap.Findings) != len(want.Findings) {
				t.Errorf("%q: %s", text, got)
			}
		}
	}
}

func TestAnswerConflicts(t *testing.T) {
	for what, change := range map[string]func(*site, *protocol.Change){
		"its files are gone": func(s *site, _ *protocol.Change) {
			s.Do(errors.Join(os.Remove(s.Path(requestPath)), os.Remove(s.Path(resultPath))))
		},
		"the task is not as it was": func(s *site, _ *protocol.Change) {
			s.Do(s.apply(retryChange(only(s.T, s.look()), s.Now, time.Hour)))
		},
		"when the human answered": func(_ *site, c *protocol.Change) { c.Ref = protocol.Ref{} },
		"another program has written a decision": func(s *site, _ *protocol.Change) {
			s.Write(decisionPath, `{"decision": "leave", "decided_at": "2026-01-02T03:04:05Z"}`)
		},
		"not complete": func(s *site, _ *protocol.Change) { s.Write(decisionPath, "") },
	} {
		s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
		c := answerTo(only(t, s.look()).Outcome.Ref, "5f0c7d21", "retry", s.Now)
		change(s, &c)
		if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if b, err := os.ReadFile(s.Path(decisionPath)); err == nil && strings.Contains(string(b), "jesse") {
			t.Errorf("%s: written all the same", what)
		}
	}
}

func TestAnswerThatSaysNothing(t *testing.T) {
	for what, change := range map[string]func(*protocol.Answer){
		"no incident": func(a *protocol.Answer) { a.Key = "" },
		"no time":     func(a *protocol.Answer) { a.At = time.Time{} },
		"no words":    func(a *protocol.Answer) { a.Option, a.Label = "", "" },
	} {
		s := newSite(t, around+file(requestPath, requestText))
		c := answerTo(only(t, s.look()).Ref, "5f0c7d21", "retry", s.Now)
		change(c.Answer)
		if err := s.apply(c); err == nil || errors.Is(err, protocol.ErrConflict) || errors.Is(err, protocol.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A folder or link in the decision's place is neither followed nor replaced.
func TestAnswerWhereNoFileIs(t *testing.T) {
	for what, make := range map[string]func(at, outside string) error{
		"folder": func(at, _ string) error { return os.Mkdir(at, 0o755) },
		"link":   func(at, outside string) error { return os.Symlink(outside, at) },
	} {
		s := newSite(t, around+file(requestPath, requestText))
		outside := filepath.Join(t.TempDir(), "theirs.json")
		s.Do(os.WriteFile(outside, []byte("{}"), 0o600))
		c := answerTo(only(t, s.look()).Ref, "5f0c7d21", "retry", s.Now)
		if err := make(s.Path(decisionPath), outside); err != nil {
			t.Skip("no such thing can be made here: ", err)
		}
		if err := s.apply(c); !errors.Is(err, jsonfile.ErrHostile) {
			t.Errorf("%s: %v", what, err)
		}
		if b, err := os.ReadFile(outside); err != nil || string(b) != "{}" {
			t.Errorf("%s: outside is %q (%v)", what, b, err)
		}
	}
}

// Two incidents of one task, one of which recurs under its old key: the newest answer stands, each answer is on
// record once, and a repeated change does not restore an older answer.
func TestDecidedAgainAndAgain(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	ref := only(t, s.look()).Outcome.Ref
	begin := s.Now.Add(-time.Hour).Truncate(time.Second)
	a, b, c := answerTo(ref, "aaaa", "leave", begin), answerTo(ref, "bbbb", "leave", begin), answerTo(ref, "aaaa", "retry", begin.Add(time.Minute))
	for i, change := range []protocol.Change{a, b, a, b, c, a, b, c} {
		if err := s.apply(change); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	at := jsonfile.FormatTime
	for name, want := range map[string]string{
		decisionPath: decisionText("retry", at(begin.Add(time.Minute)), "aaaa"), attempt(1, "decision"): decisionText("leave", at(begin), "aaaa"),
		attempt(2, "decision"): decisionText("leave", at(begin), "bbbb"),
	} {
		if got := s.Read(name); got != want {
			t.Errorf("%s is\n%s", name, got)
		}
	}
	if s.p.Has(attemptFile(taskID, 3, "decision")) {
		t.Error("one is on record twice")
	}
	if n := strings.Count(s.Read(logPath), eventDecided); n != 3 {
		t.Errorf("%d lines in the log:\n%s", n, s.Read(logPath))
	}
}

// A decision with a future timestamp must not stand for ever.
func TestADecisionFromTheFuture(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(decisionPath, decisionText("leave", "2126-01-02T03:04:05Z", "aaaa")))
	s.Do(s.apply(answerTo(only(t, s.look()).Ref, "bbbb", "retry", s.Now)))
	if got := s.Read(decisionPath); !strings.Contains(got, "bbbb") || !strings.Contains(s.Read(attempt(1, "decision")), "2126") {
		t.Errorf("%s", got)
	}
}

// A retry leaves the decision that caused it in place, even if a client has meanwhile archived the task's other
// files.
func TestADecisionStays(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	k := only(t, s.look())
	s.Do(os.MkdirAll(s.Path(Base+"/"+archiveDir), 0o755))
	s.Do(errors.Join(os.Rename(s.Path(requestPath), s.Path(archiveReq)), os.Rename(s.Path(resultPath), s.Path(archiveRes))))
	s.Do(s.apply(answerTo(k.Outcome.Ref, "5f0c7d21", "retry", s.Now)))
	s.Do(s.apply(retryChange(only(t, s.look()), s.Now, 0)))
	if k = only(t, s.look()); !k.Visible || k.Attempt() != 2 || !strings.Contains(s.Read(decisionPath), `"retry"`) {
		t.Errorf("%+v", k)
	}
}

// A result whose request is gone can be answered by the result alone.
func TestAnswerToAResultAlone(t *testing.T) {
	s := newSite(t, around+file(resultPath, resultText))
	k := only(t, s.look())
	s.Do(s.apply(answerTo(k.Ref, "5f0c7d21", "leave", s.Now)))
	if got := s.Read(decisionPath); !strings.Contains(got, `"leave"`) {
		t.Errorf("%s", got)
	}
}

// A settled task can be answered and stays settled: it raises no second alert.
func TestAnswerToASettledTask(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	ref := only(t, s.look()).Outcome.Ref
	s.reopen()
	look := func(hints ...string) *protocol.Snapshot {
		s.Pass(time.Second)
		snap := s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Hints: hints, Since: s.Now.Add(time.Hour)})
		return &snap
	}
	if n := len(look().Tasks); n > 0 {
		t.Fatalf("%d tasks on the list", n)
	}
	s.Do(s.apply(answerTo(ref, "5f0c7d21", "leave", s.Now)))
	if n, m := len(look(decisionPath).Tasks), len(look().Tasks); n+m > 0 || !strings.Contains(s.Read(decisionPath), `"leave"`) {
		t.Errorf("%d and %d tasks on the list", n, m)
	}
}

// FuzzDecision: whatever the operator writes, the document is valid and short, and decodes to the same answer.
func FuzzDecision(f *testing.F) {
	f.Add("5f0c7d21", "retry", "Run it again", "the disk\r\nhas room\tnow", "jesse", int64(1767323045))
	f.Add("k", "", "\xff\x00\x1b[2J\u2028", strings.Repeat("\x01\u00e9", 9000), "a\nb", int64(1))
	f.Fuzz(func(t *testing.T, key, option, label, why, by string, at int64) {
		d, err := decisionOf(taskID, &protocol.Answer{Key: key, Option: option, Label: label, Why: why, By: by, At: time.Unix(at%(1<<37), 7)})
		if err != nil {
			return
		}
		doc, err := jsonfile.Encode(d)
		if err != nil || len(doc) > 64<<10 {
			t.Fatalf("%d bytes, %v", len(doc), err)
		}
		o, err := jsonfile.Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		if back := decodeDecision(o); !back.is(d) {
			t.Errorf("%+v came back as %+v", d, back)
		}
		text, _ := o.String("label")
		if n := utf8.RuneCountInString(text); n > maxText || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("label of %d: %q", n, text)
		}
	})
}

func FuzzDecisionFile(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		by, _ := o.String("source_agent")
		if d := decodeDecision(o); d.is(d) != (by == ourName) { // another writer's decision never counts as steward's
			t.Errorf("%+v", d)
		}
		return nil
	}, decisionText("retry", "2026-01-02T03:04:05Z", "5f0c7d21"), `{"incident": "5f0c7d21", "source_agent": "codex"}`, `{"incident": null, "decided_at": 1e300, "source_agent": "steward"}`)
}
