package agentstatus

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// Whatever happens to the files without hints: a full scan by a long-running adapter shows the same as a scan by a
// new adapter, and both settle the same tasks.
func TestScanMissesNothing(t *testing.T) {
	s := newSite(t, around)
	s.finish(60, 2*time.Hour, "completed")
	random := rand.New(rand.NewPCG(1, 2))
	exts := []string{requestExt, heldExt, resultExt, progressExt, noticeExt}
	s.Do(os.MkdirAll(s.Path(Base+"/"+archiveDir), 0o755))
	for round := range 150 {
		for _, n := range random.Perm(70)[:random.IntN(5)] {
			s.stir(numbered(n), exts[random.IntN(len(exts))], random.IntN(5))
		}
		s.Now = time.Now().Add(time.Duration(round+60) * time.Second)
		fresh := New(s.p.dir, Options{})
		look := protocol.ScanOrder{Now: s.Now, Since: s.Now.Add(-time.Hour)}
		var seen [2]string
		for i, p := range []*Project{s.p, fresh} {
			_ = p.Observe(t.Context(), look)
			seen[i] = known(p)
		}
		fresh.Close()
		if seen[0] != seen[1] {
			t.Fatalf("round %d: %s", round, differ(seen[0], seen[1]))
		}
	}
}

// stir changes one task's set of files, or leaves it alone. A settled task with the same set of files is not reread
// without a hint.
func (s *site) stir(id, ext string, how int) {
	s.T.Helper()
	in, over := s.Path(Base+"/"+taskFile(id, ext)), s.Path(Base+"/"+archivedFile(id, ext))
	missing := func(file string) bool {
		_, err := os.Stat(file)
		return os.IsNotExist(err)
	}
	switch {
	case how == 0:
		_ = os.Remove(in)
	case how == 1 && missing(over):
		_ = os.Rename(in, over)
	case how == 2 && missing(in):
		_ = os.Rename(over, in)
	case how == 3 && ext != resultExt && missing(in):
		s.Do(os.WriteFile(in, []byte(strings.Replace(requestText, taskID, id, 1)), 0o644))
	case how == 4 && ext == resultExt && missing(in):
		old := s.Now.Add(-3 * time.Hour)
		s.Do(os.WriteFile(in, []byte(strings.Replace(strings.Replace(resultText, "failed", "completed", 1), taskID, id, 1)), 0o644))
		s.Do(os.Chtimes(in, old, old))
	}
}

// differ lists the lines that only one of the two books has.
func differ(mine, anew string) string {
	var b strings.Builder
	for line := range strings.Lines(mine) {
		if !strings.Contains(anew, line) {
			b.WriteString("\nhere: " + line)
		}
	}
	for line := range strings.Lines(anew) {
		if !strings.Contains(mine, line) {
			b.WriteString("\nanew: " + line)
		}
	}
	return b.String()
}

func known(p *Project) string {
	var b strings.Builder
	for _, id := range sortedKeys(p.tasks.open) {
		e := p.tasks.open[id]
		fmt.Fprintln(&b, "open", id, e.request.There, e.held.There, e.result.There, e.archived.There, e.archivedResult.There)
	}
	for _, id := range sortedKeys(p.tasks.settled) {
		s := p.tasks.settled[id]
		fmt.Fprintln(&b, "over", id, s.set, s.mtime, s.size)
	}
	return b.String()
}
