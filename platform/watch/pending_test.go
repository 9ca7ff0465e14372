package watch

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func drain(p *pending) []Event {
	var all []Event
	for ev, ok := p.head(); ok; ev, ok = p.head() {
		p.delivered(ev)
		all = append(all, ev)
	}
	return all
}

func TestPendingIsFairAndMerges(t *testing.T) {
	p := newPending()
	for _, path := range []string{"1", "2", "1", "3"} {
		p.add("a", path)
	}
	p.add("b", "1")
	p.overflow("c")
	p.add("c", "1")
	want := []Event{{Key: "a", Path: "1"}, {Key: "b", Path: "1"}, {Key: "c", Overflow: true}, {Key: "a", Path: "2"}, {Key: "a", Path: "3"}}
	if got := drain(&p); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

func TestPendingBecomesOverflow(t *testing.T) {
	p := newPending()
	for i := range maxPaths {
		p.add("a", fmt.Sprint(i))
	}
	if got := drain(&p); len(got) != maxPaths {
		t.Fatalf("%d events for %d paths", len(got), maxPaths)
	}
	for i := range maxPaths + 1 {
		p.add("a", fmt.Sprint(i))
	}
	if got := drain(&p); len(got) != 1 || !got[0].Overflow {
		t.Fatalf("%d events, first %+v", len(got), got[0])
	}
}

func TestPendingForget(t *testing.T) {
	p := newPending()
	p.add("a", "1")
	offered, _ := p.head()
	p.forget("a")
	p.delivered(offered)
	p.add("b", "1")
	p.delivered(offered)
	if got := drain(&p); len(got) != 1 || got[0].Key != "b" {
		t.Fatalf("got %v", got)
	}
}

// TestPendingLosesNothing: every hint is delivered after it was added, as itself or as its key's Overflow.
func TestPendingLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPending()
		due := map[string]map[string]bool{"a": {}, "b": {}}
		receive := func(ev Event) {
			p.delivered(ev)
			if ev.Overflow {
				clear(due[ev.Key])
			}
			delete(due[ev.Key], ev.Path)
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			switch rapid.SampledFrom([]string{"add", "add", "overflow", "deliver"}).Draw(t, "step") {
			case "add":
				path := rapid.StringMatching("[x-z]{1,2}").Draw(t, "path")
				p.add(key, path)
				due[key][path] = true
			case "overflow":
				p.overflow(key)
				due[key]["everything"] = true
			case "deliver":
				if ev, ok := p.head(); ok {
					receive(ev)
				}
			}
		}
		for ev, ok := p.head(); ok; ev, ok = p.head() {
			receive(ev)
		}
		if len(due["a"])+len(due["b"]) > 0 {
			t.Fatalf("never delivered: %v", due)
		}
	})
}

// TestLossIsNotMergedAway: Lost stays set until it is received, whatever is added before; a removed folder is not a
// loss.
func TestLossIsNotMergedAway(t *testing.T) {
	p := newPending()
	p.overflow("q")
	p.add("p", "a")
	p.lose("p")
	p.add("p", "b")
	p.overflow("p")
	for _, want := range []Event{{Key: "q", Overflow: true}, {Key: "p", Overflow: true, Lost: true}} {
		if ev, _ := p.head(); ev != want {
			t.Errorf("got %+v, want %+v", ev, want)
		}
		ev, _ := p.head()
		p.delivered(ev)
	}
	if ev, more := p.head(); more {
		t.Errorf("left: %+v", ev)
	}
}
