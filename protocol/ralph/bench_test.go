package ralph

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// crowded is a project with n finished tasks and their workers, and one task in progress.
func crowded(t testing.TB, n int) string {
	var b strings.Builder
	b.WriteString(kanban(line("=", "TASK-001", "Ship it")))
	dir := lay(t, file(home+"/agent.pid", nobody))
	for i := range n {
		id := fmt.Sprintf("OLD%c-%04d", 'A'+rune(i/10000), i%10000)
		fmt.Fprintf(&b, "\n- [%s] **[%s]** Old\n  - Description: of long ago\n  - Priority: LOW\n", []string{"x", "*"}[i%2], id)
		write(t, dir, fmt.Sprintf("%s/%s/worker-%s-1600000000/prd.md", Base, workersDir, id), "x")
	}
	write(t, dir, kanbanPath, b.String())
	return dir
}

// Finished tasks cost nothing in a scan by hints, except for the bounded number of failed tasks that are listed: with ten
// thousand finished tasks a scan takes some milliseconds longer than with none.
func BenchmarkHintedLook(b *testing.B) {
	for _, n := range []int{0, 10000} {
		b.Run(fmt.Sprint(n, " finished"), func(b *testing.B) {
			p := open(b, crowded(b, n))
			p.sys.table = func() ([]proc.Process, error) { return nil, nil } // do not measure the machine's size
			now := time.Now().Add(time.Hour)
			since := now.Add(-time.Minute)
			p.Observe(b.Context(), protocol.ScanOrder{Now: now, Since: since})
			for b.Loop() {
				s := p.Observe(b.Context(), protocol.ScanOrder{Now: now, Since: since, Hints: []string{home + "/agent.pid"}})
				if len(s.Tasks) != 1+min(n/2, maxEnded) {
					b.Fatalf("%d tasks", len(s.Tasks))
				}
			}
		})
	}
}

func BenchmarkFullLook(b *testing.B) {
	p := open(b, crowded(b, 10000))
	now := time.Now().Add(time.Hour)
	p.Observe(b.Context(), protocol.ScanOrder{Now: now, Since: now})
	for b.Loop() {
		p.Observe(b.Context(), protocol.ScanOrder{Now: now, Since: now})
	}
}

func BenchmarkFirstLook(b *testing.B) {
	dir := crowded(b, 10000)
	for b.Loop() {
		p := New(dir, Options{})
		p.Observe(b.Context(), protocol.ScanOrder{Now: time.Now().Add(time.Hour), Since: time.Now()})
		p.Close()
	}
}
