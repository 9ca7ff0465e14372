package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

func oneOf(project string, kind protocol.Kind, id string) protocol.Subject {
	return protocol.Subject{Project: project, Protocol: "agentstatus", Kind: kind, ID: id}
}

// TestBookIsStoredAsAMap: a memory that an older steward has saved can be read, and the other way round.
func TestBookIsStoredAsAMap(t *testing.T) {
	all := map[protocol.Subject]TaskMemory{}
	for _, project := range []string{"shop", "shop-2", "a b", "é"} {
		for i := range 30 {
			all[oneOf(project, protocol.KindTask, fmt.Sprint("t", i))] = TaskMemory{Run: i, TaskHistory: TaskHistory{State: protocol.TaskDone}}
		}
	}
	want, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	book := BookOf(all)
	for range 2 { // the second time from what was kept
		if got, err := json.Marshal(book); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%s\n%s", err, got, want)
		}
	}
	var read Book[TaskMemory]
	if err := json.Unmarshal(want, &read); err != nil || !maps.Equal(maps.Collect(read.All()), all) {
		t.Errorf("read back: %v, %d subjects", err, read.Len())
	}
}

func TestEncodeSaysWhatMarshalSays(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, m := range map[string]Memory{"empty": {},
		"some": {LastLook: at, Tasks: BookOf(map[protocol.Subject]TaskMemory{oneOf("shop", protocol.KindTask, "t1"): {Run: 1}}),
			Reaps: BookOf(map[protocol.Subject]Reap{oneOf("shop", protocol.KindAgent, "codex"): {Seen: at}})},
		"only books": {Agents: BookOf(map[protocol.Subject]heartbeat.Memory{oneOf("shop", protocol.KindAgent, "codex"): {Heard: heartbeat.Heard{Mark: "m"}}})},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var read Memory
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			a, _ := json.Marshal(m)
			if b, _ := json.Marshal(read); !bytes.Equal(a, b) {
				t.Errorf("\n%s\n%s", a, b)
			}
		})
	}
}

// TestBooksShareAndDoNotChange: what is set in one shows in no other.
func TestBooksShareAndDoNotChange(t *testing.T) {
	one, two := oneOf("shop", protocol.KindTask, "1"), oneOf("shop", protocol.KindTask, "2")
	a := BookOf(map[protocol.Subject]int{one: 1})
	b := a.With(one, 5).With(two, 6).With(oneOf("site", protocol.KindTask, "1"), 7)
	if a.Of(one) != 1 || a.Len() != 1 || b.Of(one) != 5 || b.Of(two) != 6 || b.Len() != 3 {
		t.Errorf("%v %v", maps.Collect(a.All()), maps.Collect(b.All()))
	}
	if _, known := a.Find(two); known {
		t.Error("it holds what was set in another")
	}
	own := false
	c := b
	replace(&c, &own, shelfOf(one), nil)
	if c.Len() != 1 || b.Len() != 3 {
		t.Errorf("%d and %d are left", c.Len(), b.Len())
	}
	if n := len(maps.Collect(c.In("site"))); n != 1 || len(maps.Collect(c.In("shop"))) != 0 {
		t.Errorf("%d in the project", n)
	}
}

// TestWriterMakesWhatAMapWouldHold plays chance: ids come, go, change their order, and stand there twice.
func TestWriterMakesWhatAMapWouldHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var last *part[int]
	held := map[string]int{}
	for n := range 5000 {
		w, next := writer[int]{old: last, same: equal[int]}, map[string]int{}
		ids := make([]string, 0, 8)
		if last != nil {
			ids = append(ids, last.ids...)
		}
		switch r.IntN(5) {
		case 0:
			r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		case 1:
			ids = append(ids, fmt.Sprint(r.IntN(9)))
		case 2:
			ids = ids[:r.IntN(len(ids)+1)]
		}
		for _, id := range ids {
			if got := w.value(id); got != held[id] {
				t.Fatalf("turn %d: %s was %d, not %d", n, id, held[id], got)
			}
			v := r.IntN(3)
			w.write(id, &v)
			next[id] = v
		}
		p := w.done()
		if p != last && reflect.DeepEqual(next, held) && reflect.DeepEqual(ids, idsIn(last)) {
			t.Fatalf("turn %d: nothing has changed, and it is another part", n)
		}
		got := map[string]int{}
		for i, id := range idsIn(p) {
			if v, known := p.find(id); !known || v != p.values[i] {
				t.Fatalf("turn %d: %s is not found", n, id)
			}
			got[id] = p.values[i]
		}
		if !maps.Equal(got, next) || len(got) != len(idsIn(p)) {
			t.Fatalf("turn %d: %v, not %v", n, got, next)
		}
		last, held = p, next
	}
}

func idsIn[V any](p *part[V]) []string {
	if p == nil {
		return nil
	}
	return p.ids
}
