package handoffs

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A client took two locks by a late write, saw them merged, and gives both back: they stay given back.
func TestBothLocksReleased(t *testing.T) {
	s := newSite(t, file(statePath, stateText))
	snap := s.look()
	f, err := os.OpenFile(s.Path(statePath), os.O_RDWR, 0)
	s.Do(err)
	defer f.Close()
	s.Do(s.apply(unlockChange(snap, "src/a.go")))
	s.Do(f.Truncate(0))
	mine := `"m1": {"agent": "fixer", "acquired": "2026-01-02T03:04:05Z"},"m2": {"agent": "fixer", "acquired": "2026-01-02T03:04:05Z"},`
	_, err = f.WriteAt([]byte(strings.Replace(stateText, `"locks": {`, `"locks": {`+mine, 1)), 0)
	s.Do(err)
	for i := range 12 {
		s.Now = s.Now.Add(100 * time.Millisecond)
		s.at([]string{})
		text := s.Read(statePath)
		if has := strings.Contains(text, `"m1"`); i == 0 && !has {
			t.Fatal("not merged")
		} else if has && i > 0 {
			t.Errorf("look %d: locks that were released are back", i)
		}
		if strings.Contains(text, mine) { // the client gives both back, having read the merged document
			s.Write(statePath, strings.Replace(text, mine, "", 1))
		}
	}
}
