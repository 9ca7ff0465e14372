package escalate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

func open(t testing.TB, dir string) *Incidents {
	t.Helper()
	l, faults, err := Open(dir)
	if err != nil || len(faults) > 0 {
		t.Fatalf("Open: %v, faults %v", err, faults)
	}
	return l
}

func mustRaise(t testing.TB, l *Incidents, a rules.Alert, now time.Time) Incident {
	t.Helper()
	i, _, err := l.Raise(a, now)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestLedgerIsOnDisk checks that a change is on disk when its call returns: another process reads the same.
func TestLedgerIsOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "incidents")
	l := open(t, dir)
	local := noon.In(time.FixedZone("CDT", -5*3600))
	i := mustRaise(t, l, trouble("7", protocol.High), local)
	same := func() {
		t.Helper()
		again := open(t, dir)
		if !reflect.DeepEqual(again.all, l.all) || !reflect.DeepEqual(again.Heads(), l.Heads()) {
			t.Fatalf("on disk:\n%+v\nin memory:\n%+v", again.all, l.all)
		}
	}
	same()
	for _, err := range []error{
		l.Record(i.Key, Delivery{Channel: ChannelDesktop, Result: "shown", At: local, OK: true, Rev: 1, Popup: i.Key}, true),
		second(l.Ack(i.Key, Config{Ack: time.Hour}, local)),
		second(l.Resolve(i.Key, rules.ByOperator, "settled", local)),
	} {
		if err != nil {
			t.Fatal(err)
		}
		same()
	}
	info, err := os.Stat(filepath.Join(dir, i.Key+".json"))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func second(_ Incident, err error) error { return err }

func TestLedgerErrors(t *testing.T) {
	l := open(t, t.TempDir())
	i := mustRaise(t, l, trouble("7", protocol.High), noon)
	mustResolve := second(l.Resolve(i.Key, rules.ByFiles, "", noon))
	for what, c := range map[string]struct{ got, want error }{
		"resolve":              {mustResolve, nil},
		"resolve twice":        {second(l.Resolve(i.Key, rules.ByFiles, "", noon)), ErrResolved},
		"resolve what is not":  {second(l.Resolve("0123456789abcdef", rules.ByFiles, "", noon)), ErrUnknown},
		"ack what is resolved": {second(l.Ack(i.Key, Config{}, noon)), ErrResolved},
		"ack what is not":      {second(l.Ack("x", Config{}, noon)), ErrUnknown},
		"record what is not":   {l.Record("x", Delivery{}, true), ErrUnknown},
		"find nothing":         {second(l.Find("")), ErrUnknown},
		"find what is not":     {second(l.Find("zz")), ErrUnknown},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", what, c.got, c.want)
		}
	}
	want(t, "incidents", len(l.all), 1)
	for _, key := range []string{"../../etc/passwd", "short", "ABCDEF0123456789", strings.Repeat("0", 65)} {
		if _, _, err := l.Raise(rules.Alert{Key: key}, noon); err == nil {
			t.Errorf("%s was taken for a key", key)
		}
	}
	_, out, err := l.Raise(rules.Alert{Key: "0123456789abcdef", Resolve: true}, noon)
	want(t, "an end without a beginning", out, rules.OutcomeSame)
	want(t, "its error", err, nil)
}

func TestListAndFind(t *testing.T) {
	l := open(t, t.TempDir())
	for n, key := range []string{"aaaa0001", "aaaa0002", "bbbb0001", "bbbb0002", "cccc0001"} {
		a := rules.Alert{Key: key, Severity: protocol.High, Summary: key}
		if key == "bbbb0001" {
			a.Severity = protocol.Critical
		}
		mustRaise(t, l, a, noon.Add(time.Duration(n)))
	}
	l.Resolve("bbbb0002", rules.ByFiles, "", noon)
	l.Resolve("cccc0001", rules.ByFiles, "", noon)
	var keys []string
	for _, i := range l.List() {
		keys = append(keys, i.Key)
	}
	want(t, "list", strings.Join(keys, " "), "bbbb0001 aaaa0002 aaaa0001")
	for prefix, key := range map[string]string{"aaaa0002": "aaaa0002", "bb": "bbbb0001", "cc": "cccc0001", "bbbb0002": "bbbb0002"} {
		i, err := l.Find(prefix)
		want(t, "find "+prefix, i.Key, key)
		want(t, "error", err, nil)
	}
	if _, err := l.Find("aa"); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "aaaa0001, aaaa0002") {
		t.Errorf("find aa: %v", err)
	}
}

func TestHeadsDoNotChange(t *testing.T) {
	l := open(t, t.TempDir())
	i := mustRaise(t, l, trouble("7", protocol.High), noon)
	before := l.Heads()
	want(t, "the same map while nothing happens", reflect.ValueOf(before).Pointer(), reflect.ValueOf(l.Heads()).Pointer())
	mustRaise(t, l, trouble("8", protocol.High), noon)
	l.Resolve(i.Key, rules.ByFiles, "", noon)
	want(t, "heads before", len(before), 1)
	want(t, "state before", before[i.Key].State, rules.Raised)
	want(t, "heads", len(l.Heads()), 2)
	want(t, "state", l.Heads()[i.Key].State, rules.Resolved)
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for n := range 10 {
		i := mustRaise(t, l, trouble(fmt.Sprint(n), protocol.High), noon)
		if n < 6 {
			l.Resolve(i.Key, rules.ByFiles, "", noon.Add(time.Duration(n)*time.Hour))
		}
	}
	n, err := l.Prune(noon.Add(32*time.Hour+time.Minute), 30*time.Hour)
	want(t, "removed", n, 3)
	want(t, "error", err, nil)
	want(t, "left", len(open(t, dir).Heads()), 7)
	want(t, "left in memory", len(l.Heads()), 7)
}

// TestWriteThatFails checks that an incident that could not be written is kept in memory and written by the next
// call.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	full := true
	l.put = func(dir, name string, b []byte) error {
		if full {
			return errors.New("no space left on device")
		}
		return put(dir, name, b)
	}
	a := trouble("7", protocol.High)
	for range 2 { // the second time nothing has changed, but the incident is still not on disk
		i, _, err := l.Raise(a, noon)
		want(t, "error", err != nil, true)
		want(t, "state", i.State, rules.Raised)
	}
	want(t, "heads", len(l.Heads()), 1)
	want(t, "flush", l.Flush() != nil, true)
	full = false
	mustRaise(t, l, trouble("8", protocol.High), noon)
	want(t, "on disk", len(open(t, dir).Heads()), 2)
	want(t, "flush", l.Flush(), nil)
}

// TestConcurrentUse checks that with many goroutines on the same incidents, every occurrence is counted once, and memory and
// disk agree.
func TestConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	var crew sync.WaitGroup
	for g := range 8 {
		crew.Go(func() {
			for n := range 20 {
				a := trouble(fmt.Sprint(n%4), protocol.High)
				a.Occurrence = fmt.Sprint(g, n)
				i := mustRaise(t, l, a, noon)
				l.Record(i.Key, Delivery{Channel: fmt.Sprint(g), OK: true, Rev: 1}, true)
				l.Ack(i.Key, Config{Ack: time.Hour}, noon)
				l.List()
				l.Find(i.Key[:4])
				for _, h := range l.Heads() {
					_ = h.Rev
				}
				l.Prune(noon, time.Hour)
			}
		})
	}
	crew.Wait()
	count := 0
	for _, i := range l.List() {
		count += i.Count
	}
	want(t, "occurrences", count, 160)
	if again := open(t, dir); !reflect.DeepEqual(again.all, l.all) {
		t.Error("memory and disk differ")
	}
}

func benchmarkRaise(b *testing.B, resolved int, put func(dir, name string, b []byte) error) {
	l := open(b, b.TempDir())
	l.put = func(string, string, []byte) error { return nil }
	for n := range resolved {
		i := mustRaise(b, l, trouble(fmt.Sprint(n), protocol.Low), noon)
		l.Resolve(i.Key, rules.ByFiles, "", noon)
	}
	if put != nil {
		l.put = put
	}
	a := trouble("new", protocol.Low)
	for n := 0; b.Loop(); n++ {
		a.Occurrence = fmt.Sprint(n)
		mustRaise(b, l, a, noon)
	}
}

func BenchmarkRaise(b *testing.B) {
	unsynced := func(dir, name string, doc []byte) error { return os.WriteFile(filepath.Join(dir, name), doc, 0o600) }
	for _, n := range []int{0, 10000} {
		b.Run(fmt.Sprintf("memory/resolved=%d", n), func(b *testing.B) { benchmarkRaise(b, n, nil) })
		b.Run(fmt.Sprintf("unsynced/resolved=%d", n), func(b *testing.B) { benchmarkRaise(b, n, unsynced) })
		b.Run(fmt.Sprintf("synced/resolved=%d", n), func(b *testing.B) { benchmarkRaise(b, n, put) })
	}
}

// BenchmarkHeads measures the worst case of a decision: the heads after a change, with a long history.
func BenchmarkHeads(b *testing.B) {
	l := open(b, b.TempDir())
	l.put = func(string, string, []byte) error { return nil }
	for n := range 10000 {
		mustRaise(b, l, trouble(fmt.Sprint(n), protocol.Low), noon)
	}
	for b.Loop() {
		l.heads = nil
		l.Heads()
	}
}
