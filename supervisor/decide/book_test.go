package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
	if got, err := json.Marshal(BookOf(all)); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v\n%s\n%s", err, got, want)
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
		"settled tasks": {Tasks: settledTasks(3, at)},
		"only books":    {Agents: BookOf(map[protocol.Subject]heartbeat.Memory{oneOf("shop", protocol.KindAgent, "codex"): {Heard: heartbeat.Heard{Mark: "m"}}})},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time from what was kept
				data, err := m.Encode()
				if err != nil {
					t.Fatal(err)
				}
				var read Memory
				if err := json.Unmarshal(data, &read); err != nil {
					t.Fatalf("%v: %s", err, data)
				}
				if !maps.Equal(maps.Collect(m.Tasks.All()), maps.Collect(read.Tasks.All())) {
					t.Errorf("other tasks: %s", data)
				}
				read.Tasks = Book[TaskMemory]{}
				bare := m
				bare.Tasks = Book[TaskMemory]{}
				a, _ := json.Marshal(bare)
				if b, _ := json.Marshal(read); !bytes.Equal(a, b) {
					t.Errorf("\n%s\n%s", a, b)
				}
			}
		})
	}
}

// snapshotOf shows n completed tasks.
func snapshotOf(n int) protocol.Snapshot {
	s := protocol.Snapshot{Project: "shop", Protocol: "agentstatus"}
	for i := range n {
		s.Tasks = append(s.Tasks, protocol.Task{Request: protocol.Request{ID: fmt.Sprint("t", i)},
			Outcome: &protocol.Outcome{Status: "completed", Ref: protocol.Ref{Sum: fmt.Sprint(i)}}})
	}
	return s
}

// settledTasks remembers n tasks as settled.
func settledTasks(n int, at time.Time) Book[TaskMemory] {
	all := map[protocol.Subject]TaskMemory{}
	for i := range n {
		all[oneOf("shop", protocol.KindTask, fmt.Sprint("t", i))] = TaskMemory{Run: 1, Settled: fmt.Sprint(i), Looked: at}
	}
	s := snapshotOf(n)
	return Book[TaskMemory]{of: func(m *TaskMemory) TaskMemory { return *m },
		settled: map[snapshotSource]*settled{{"shop", "agentstatus"}: settle(s.Divide(nil).List, BookOf(all), snapshotSource{"shop", "agentstatus"}, at)}}
}

// TestSettledListIsKept: the list is made again only when another task has completed, or a day has passed.
func TestSettledListIsKept(t *testing.T) {
	at, where := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), snapshotSource{"shop", "agentstatus"}
	book := settledTasks(5, at)
	was := book.settled[where]
	if len(was.open) != 0 || book.Len() != 5 {
		t.Fatalf("%d of 5 are judged", len(was.open))
	}
	s := snapshotOf(5)
	same := s.Divide(was.list)
	if same.List != was.list || settle(same.List, book, where, at.Add(time.Hour)) != was {
		t.Error("the same tasks make another list")
	}
	if next := settle(same.List, book, where, at.Add(25*time.Hour)); next == was || next.memory[0].Looked != at.Add(25*time.Hour) {
		t.Error("nobody knows that the tasks were seen a day later")
	}
	s = snapshotOf(6)
	s.Tasks[2].Outcome.Ref.Sum = "another"
	next := settle(s.Divide(was.list).List, book, where, at)
	if fmt.Sprint(next.open) != "[2 5]" {
		t.Errorf("judged are %v, not the one with another result and the new one", next.open)
	}
	if v, known := book.With(oneOf("shop", protocol.KindTask, "t1"), TaskMemory{Run: 7}).Find(oneOf("shop", protocol.KindTask, "t1")); !known || v.Run != 7 {
		t.Errorf("%v, %+v", known, v)
	}
}

// TestBooksDoNotChange: what is set in one shows in no other.
func TestBooksDoNotChange(t *testing.T) {
	one, two := oneOf("shop", protocol.KindTask, "1"), oneOf("shop", protocol.KindTask, "2")
	a := BookOf(map[protocol.Subject]int{one: 1})
	b := a.With(one, 5).With(two, 6).With(oneOf("site", protocol.KindTask, "1"), 7)
	if a.Of(one) != 1 || a.Len() != 1 || b.Of(one) != 5 || b.Of(two) != 6 || b.Len() != 3 {
		t.Errorf("%v %v", maps.Collect(a.All()), maps.Collect(b.All()))
	}
	if _, known := a.Find(two); known {
		t.Error("it holds what was set in another")
	}
}
