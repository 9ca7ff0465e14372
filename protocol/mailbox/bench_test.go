package mailbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// longQueue is a queue with n completed tasks, in addition to the tasks of queueText.
func longQueue(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id": "done-%d", "type": "feature", "priority": "high", "title": "T", "description": "d", "status": "completed", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z"},`, i)
	}
	return strings.Replace(queueText, `"completed": [`, `"completed": [`+b.String(), 1)
}

// Ten thousand completed tasks must add almost nothing to the cost of a scan by hints.
func TestHistoryIsFree(t *testing.T) {
	cost := func(n int) float64 {
		r := newTestProject(t, file(queuePath, longQueue(n))+file(boardPath, boardText)+file(devPath, devText))
		look := protocol.ScanOrder{Now: r.Now.Add(time.Hour), Since: r.Now, Hints: []string{devPath}}
		r.see(look)
		return testing.AllocsPerRun(20, func() { r.see(look) })
	}
	few, many := cost(10), cost(10_000)
	if many > few*1.5+50 {
		t.Errorf("a look allocates %v times with 10,000 completed tasks, %v with 10", many, few)
	}
}

func BenchmarkHintedLook(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newTestProject(b, file(queuePath, longQueue(n))+file(boardPath, boardText)+file(devPath, devText))
			look := protocol.ScanOrder{Now: r.Now.Add(time.Hour), Since: r.Now, Hints: []string{devPath}}
			r.see(look)
			b.ReportAllocs()
			for b.Loop() {
				r.see(look)
			}
		})
	}
}
