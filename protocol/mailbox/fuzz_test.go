package mailbox

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// fuzzDocument checks what a decoder must do for any input: not panic, return the same result twice, and produce one-line
// findings that are not empty.
func fuzzDocument[T any](f *testing.F, decode func(jsonfile.Object) T, check func(*testing.T, T) []folder.Findings, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(strings.NewReplacer("null", "1e999", "true", "null", "[]", `[null,{"a":[]},"x"]`, "{}", "[]", `"web"`, "7").Replace(s)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := jsonfile.Parse(b)
		if err != nil {
			return
		}
		v := decode(o)
		again, _ := jsonfile.Parse(bytes.Clone(b))
		if !reflect.DeepEqual(v, decode(again)) {
			t.Error("decoded twice, it is not the same")
		}
		for _, l := range check(t, v) {
			if len(l) > folder.MaxFindings+1 {
				t.Errorf("%d findings", len(l))
			}
			for _, i := range l {
				if i.Code == "" || i.Text == "" || !oneLine(i.Text) || !oneLine(i.Field) || len([]rune(i.Field)) > 120 {
					t.Errorf("finding %+v", i)
				}
			}
		}
	})
}

func oneLine(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) }

func FuzzQueue(f *testing.F) {
	fuzzDocument(f, decodeQueue, func(t *testing.T, q queue) []folder.Findings {
		seen := map[string]bool{}
		for _, r := range append(append([]record{}, q.tasks...), q.done...) {
			if !plainID(r.id) || seen[r.id] || !oneLine(r.status+r.title+r.reason+r.kind) || len([]rune(r.title)) > 200 || len([]rune(r.reason)) > 500 || r.rejections < 0 ||
				r.priority < protocol.PriorityLow || r.priority > protocol.PriorityCritical {
				t.Errorf("%+v", r)
			}
			seen[r.id] = true
		}
		for i := 1; i < len(q.done); i++ {
			if q.done[i].ended().After(q.done[i-1].ended()) {
				t.Error("not the newest first")
			}
		}
		if len(q.strange) > folder.MaxFindings || len(q.byID) != len(q.done) {
			t.Errorf("%d strange ids, %d of %d known", len(q.strange), len(q.byID), len(q.done))
		}
		return []folder.Findings{q.issues}
	}, queueText, `{"tasks":{},"completed":7}`, `{"tasks":[{"id":"a\u0000b","status":"\n"},{"id":"x","rejectionCount":-1e300,"priority":"p1","title":"`+strings.Repeat("é", 400)+`"}]}`)
}

func FuzzBoard(f *testing.F) {
	fuzzDocument(f, decodeBoard, func(t *testing.T, b board) []folder.Findings {
		if b.pid < 0 || b.pid >= folder.MaxPID || len(b.roles) > 4 {
			t.Errorf("%+v", b)
		}
		for _, r := range b.roles {
			if r.name == "" || !oneLine(r.status) || r.task != "" && !plainID(r.task) {
				t.Errorf("%+v", r)
			}
		}
		return []folder.Findings{b.issues}
	}, boardText, `{"orchestrator":{"pid":"12","running":1},"teamLead":{},"techLead":[],"developer":{"status":"\u001b[31m","currentTask":"a/b"}}`)
}

func FuzzMailbox(f *testing.F) {
	fuzzDocument(f, decodeMailbox, func(t *testing.T, m mailbox) []folder.Findings {
		all := []folder.Findings{m.issues}
		for _, l := range m.messages {
			if l.task != "" && !plainID(l.task) || !oneLine(l.kind+l.from) {
				t.Errorf("%+v", l)
			}
			if l.build != nil && (l.build.errors < 0 || !oneLine(l.build.status+l.build.command+l.build.output+l.build.summary)) {
				t.Errorf("%+v", l.build)
			}
			if c := l.question; c != nil && (c.text == "" || !oneLine(c.text) || len(c.options) > 20 || c.severity.Rank() == 0) {
				t.Errorf("%+v", c)
			}
			all = append(all, l.issues)
		}
		if len(m.messages) > maxMessages {
			t.Errorf("%d messages", len(m.messages))
		}
		return all
	}, devText, `{"messages":[{"type":"completion_report","taskId":"a","platform":"web","status":"x","buildResult":{"status":"failed","errors":-1}}],"lastRead":null}`,
		`{"messages":[{"type":"blocker","taskId":"a","options":[1,"b"],"severity":"CRITICAL","text":" \n "}],"lastRead":[]}`,
		`{"messages":[`+strings.Repeat("{},", 600)+`{}]}`)
}

func FuzzPID(f *testing.F) {
	for _, s := range []string{"1234", " 12\n", "", "-1", "{\"pid\": 7}", "{\"pid\": \"8\"}", "{", "99999999999999", "0x10", "1 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodePID(b)
		if n < 0 || n >= folder.MaxPID || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// Edits of a document change only what they mean: removing messages leaves the others unchanged.
func FuzzRemoval(f *testing.F) {
	f.Add([]byte(devText), "task-000")
	f.Add([]byte(`{"messages":[{"taskId":"a"},{"taskId":"b"},{"taskId":"a"}]}`), "a")
	f.Fuzz(func(t *testing.T, b []byte, id string) {
		was, err := jsonfile.Parse(b)
		sets := messageRemovals(was, id)
		if err != nil || len(sets) == 0 {
			return
		}
		doc, err := jsonfile.Edit(b, sets...)
		if err != nil {
			t.Fatal(err)
		}
		is, err := jsonfile.Parse(doc)
		if again := messageRemovals(is, id); err != nil || len(again) > 0 {
			t.Errorf("%d are left, %v", len(again), err)
		}
		before, _ := was.Array("messages")
		after, _ := is.Array("messages")
		if len(after) != len(before)-len(sets) {
			t.Errorf("%d of %d are left after %d", len(after), len(before), len(sets))
		}
	})
}
