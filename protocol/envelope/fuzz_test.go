package envelope

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// oneLine reports whether text fits on one line and is bounded.
func oneLine(s string) bool {
	return len(s) <= 4*maxText+200 && !strings.ContainsFunc(s, unicode.IsControl)
}

func FuzzMessage(f *testing.F) {
	for _, m := range []fields{assign("t", "X").with(fields{"deadline": "2 hours", "blocked_by": "a", "related_tasks": []any{"b", 1}}), ack("t", "X"),
		complete("t", "X", false), verdict("t", "APPROVED", true), reject("t"), escalate("t", "X", "human"), resolve("t"), resolve("t").with(fields{"answer_key": "k", "in_reply_to": "t-000000"}),
		assign("t", "").with(fields{"to_agent": []any{"A", fields{"DEPLOYMENT": []any{"B\x00"}}}}), verdict("t", "APPROVED", false).with(fields{"output": fields{"critical_issues": 3}}),
		{"message_type": "a\x00b", "task_id": "..", "timestamp": 1e300}} {
		f.Add(m.String())
		f.Add(strings.NewReplacer("true", "null", `"a"`, "[1e999]", `"X"`, `{"x":[]}`).Replace(m.String()))
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := jsonfile.Parse([]byte(text))
		if err != nil {
			return
		}
		m := decode(o, testOptions.Deployers)
		if again := decode(o, testOptions.Deployers); !reflect.DeepEqual(m, again) {
			t.Errorf("decoded twice: %+v, %+v", m, again)
		}
		if m.unusable == "" && m.task != "" && !plain(m.task) || len(m.faults) > 20 || len(m.findings) > maxFindings || !isSum(string(m.sum)) {
			t.Errorf("%+v", m)
		}
		problem, _ := m.fault()
		for _, s := range append(append([]string{m.from, m.to, problem}, m.faults...), m.also...) {
			if !oneLine(s) {
				t.Errorf("%q", s)
			}
		}
		for _, i := range m.findings {
			if i.Code == "" || !oneLine(i.Text) {
				t.Errorf("%+v", i)
			}
		}
		now := time.Unix(1767323045, 0)
		m.place("x.json", now)
		if m.at.After(now) || (m.kind == assigns) != (m.assignment != nil) || (m.kind == completes) != (m.output != nil) || (m.kind == escalates) != (m.blocker != nil) {
			t.Errorf("%+v", m)
		}
		if b := m.blocker; b != nil && (b.severity.Rank() == 0 && b.severity != protocol.Info || len(b.options) > maxItems) {
			t.Errorf("%+v", b)
		}
		l := &task{id: m.task, messages: []*message{m, m}}
		l.replay()
		if l.stage != stageNone && l.assigned == nil && !l.over() && l.stage != stageRejected && l.stage != stageAcknowledged && l.stage != stageReview {
			t.Errorf("%+v", l)
		}
	})
}

func FuzzSpan(f *testing.F) {
	for _, s := range []string{"2 hours", "in 1h30m", "1.5 days and 2 minutes", "9999999999 weeks", "٣ hours"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := parseSpan(text); ok && (d <= 0 || d > 4*maxSpan) {
			t.Errorf("%q: %v", text, d)
		}
	})
}

func FuzzNotice(f *testing.F) {
	f.Add(`{"task_id":"x","reason":"blocked","held_at":"2026-01-02T03:04:05Z","release_by":1767323045}`)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := jsonfile.Parse([]byte(text))
		if err != nil {
			return
		}
		if h := decodeNotice(o); h.Half || !oneLine(h.Reason) {
			t.Errorf("%+v", h)
		}
	})
}

func FuzzAuditLine(f *testing.F) {
	f.Add([]byte(`{"at":"2026-01-02T03:04:05Z","path":"a","sum":"0123456789abcdef0123456789abcdef","message":{}}`))
	f.Add([]byte(`{"path":"a","sum":"x","message":`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if sum, ok := auditSum(line); ok && !isSum(string(sum)) {
			t.Errorf("%q", sum)
		}
	})
}

// The log may arrive in pieces of any size.
func FuzzLog(f *testing.F) {
	f.Add(assign("a", "X").String()+"\n"+ack("a", "X").String()+"\n", 30)
	f.Add("x\n\n[]\n{}\n{\"message_type\":\"Y\",\"task_id\":\"b\"}", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if len(text) > 10_000 {
			return
		}
		whole, pieces := newSite(t, ""), newSite(t, "")
		whole.Write(logFile, "")
		cut = max(0, min(cut, len(text)))
		now := whole.Now.Add(time.Hour)
		writeRaw(whole, text)
		a := whole.at(now)
		writeRaw(pieces, text[:cut])
		pieces.at(now)
		writeRaw(pieces, text)
		b := pieces.at(now, logFile)
		if len(a.Tasks) != len(b.Tasks) || len(a.Faults) != len(b.Faults) || len(a.Events) != len(b.Events) || len(a.Faults) > maxBadLines+1 {
			t.Errorf("at once %d tasks, %d faults, %d events; in pieces %d, %d, %d", len(a.Tasks), len(a.Faults), len(a.Events), len(b.Tasks), len(b.Faults), len(b.Events))
		}
	})
}
