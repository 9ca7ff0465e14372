package handoffs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// seeds are documents, and variants of them with wrong types.
func seeds(f *testing.F, docs ...string) {
	for _, s := range docs {
		f.Add([]byte(s))
		f.Add([]byte(strings.NewReplacer(`"pending"`, "1e999", `"high"`, "true", "{}", `[null,{"a":[]},"x"]`, "[]", "{}", "null", "[]").Replace(s)))
	}
}

func oneLine(t *testing.T, limit int, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if len([]rune(s)) > limit || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("%d runes: %q", len(s), s)
		}
	}
}

func sane(t *testing.T, findings []protocol.Finding) {
	t.Helper()
	if len(findings) > folder.MaxFindings {
		t.Errorf("%d findings", len(findings))
	}
	for _, i := range findings {
		if i.Code == "" || i.Text == "" || i.Severity.Rank() == 0 {
			t.Errorf("%+v", i)
		}
		oneLine(t, 400, i.Text)
	}
}

func FuzzMessage(f *testing.F) {
	seeds(f, task(id, "pending"), handoffText("e", "builder", "orchestrator", typeEscalation, "pending"),
		`{"type":"escalation","payload":{"reason":"a_b","options":["x",1,{"label":"y"}],"context":{"a":1},"blocking":true}}`,
		`{"type":"escalation_response","message_id":"r","payload":{"in_reply_to":"e","message_id":"e2"},"context":{"escalation_id":"e"}}`,
		`{"id":"../x","timestamp":1767323045123,"priority":"CRITICAL","payload":{"errors":[{}],"task":{"title":"x"}},"accepted_at":"2026-01-02 03:04:05+0000"}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := jsonfile.Parse(b)
		if err != nil {
			return
		}
		m := decodeMessage(o, "handoffs/pending/handoff-1.json")
		if again := decodeMessage(o, "handoffs/pending/handoff-1.json"); !reflect.DeepEqual(m, again) {
			t.Errorf("%+v, then %+v", m, again)
		}
		if m.id == "" || m.title == "" || len(m.call.options) > maxOptions || m.priority < protocol.PriorityLow || m.priority > protocol.PriorityCritical {
			t.Errorf("%+v", m)
		}
		oneLine(t, 1000, m.from, m.to, m.kind, m.status, m.title, m.summary, m.work.kind, m.work.spec, m.about, m.call.text, m.call.detail, m.wrongRoute())
		if m.kind == typeEscalation && m.call.text == "" {
			t.Error("an escalation without a word")
		}
		sane(t, m.findings)
	})
}

func FuzzState(f *testing.F) {
	seeds(f, stateText, stateDocOf(`"a": {"status": "active", "last_active": "{{now}}"}, "b": "idle", "../c": {}, "d": null`, `, "current_agent": 7, "iteration": -1.5`),
		`{"locks":{"a":{"agent":"x","acquired":1,"expires":"never"},"b":null,"c":[],"":{"agent":"y"},"d":{"owner":"z","expires_at":1767323045}}}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := jsonfile.Parse(b)
		if err != nil {
			return
		}
		s := decodeState(o)
		if again := decodeState(o); !reflect.DeepEqual(s, again) {
			t.Errorf("%+v, then %+v", s, again)
		}
		if s.ours != isOurs(o) || !s.ours && len(s.agents)+len(s.locks)+len(s.findings) > 0 || len(s.agents) > maxEntries || len(s.locks) > maxEntries {
			t.Errorf("%+v", s)
		}
		for _, m := range s.agents {
			if found := s.agent(m.name); found == nil || found.name != m.name || !usable(m.name) || m.sum == "" {
				t.Errorf("%+v", m)
			}
		}
		for _, k := range s.locks {
			if k.agent == "" || k.sum == "" || !plain(k.resource) {
				t.Errorf("%+v", k)
			}
			sets, err := dropLock(o, k.resource, k.sum)
			if err != nil || len(sets) != 1 {
				t.Errorf("%+v cannot be released: %v", k, err)
			}
			next, err := jsonfile.Edit(b, sets...)
			if rest, perr := jsonfile.Parse(next); err != nil || perr != nil || len(decodeState(rest).locks) != len(s.locks)-1 {
				t.Errorf("without %q: %v %v\n%s", k.resource, err, perr, next)
			}
		}
		sane(t, s.findings)
	})
}

func FuzzLogLine(f *testing.F) {
	seeds(f, `{"event":"handoff_created","agent":"builder","timestamp":"2026-01-02T03:04:05Z","context":{"handoff":"x"}}`,
		`{"event_type":"agent_started","agent_name":"b","ts":1767323045,"context":null}`, `{"event":"`+strings.Repeat("x", 500)+`"}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newEventLog(nil)
		for range 2 {
			l.readLine(b, time.Now())
		}
		if len(l.newer) > 1 {
			t.Errorf("one line, %d keys", len(l.newer))
		}
		for key, times := range l.newer {
			if len(times) > keepTimes || len(key.name)+len(key.subject.ID) > 2000 {
				t.Errorf("%v %v", key, times)
			}
		}
	})
}

func FuzzTombstone(f *testing.F) {
	seeds(f, `{"at":"2026-01-02T03:04:05Z","resource":"a","lock":{"agent":"b"},"sum":"s","reason":"expired","why":"w"}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		x := newReleases(nil)
		x.readLine(b)
		x.readLine(b)
		for holder, sums := range x.holders {
			if holder == "" || len(sums) != 1 {
				t.Errorf("%q %v", holder, sums)
			}
		}
	})
}

// A value's sum depends on its content, not on its formatting.
func FuzzMeaning(f *testing.F) {
	seeds(f, stateText, `{"b":1.0,"a":["\u00e9",1e3]}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := jsonfile.ParseValue(b)
		if err != nil {
			return
		}
		var indented []byte
		var any json.RawMessage = v.Raw()
		if indented, err = json.MarshalIndent(any, " ", "   "); err != nil {
			return
		}
		if w, err := jsonfile.ParseValue(indented); err == nil && w.Meaning() != v.Meaning() {
			t.Errorf("%s\nand\n%s differ", b, indented)
		}
	})
}
