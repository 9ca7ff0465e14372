package handoffs

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A client takes two locks by a late write, sees them merged, and releases both: they stay released.
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
		if strings.Contains(text, mine) { // the client has read the merged document and releases both
			s.Write(statePath, strings.Replace(text, mine, "", 1))
		}
	}
}
