package escalate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/escalate/rules"
)

// ReadHeads reads the heads of a ledger that somebody else may have open, and touches nothing. What cannot be read
// is left out.
func ReadHeads(dir string) map[string]rules.Head {
	heads := map[string]rules.Head{}
	for _, i := range ReadAll(dir) {
		heads[i.Key] = i.head()
	}
	return heads
}

// ReadLedger gives a ledger of what ReadAll finds, for looking things up: no change of it can be written.
func ReadLedger(dir string) *Ledger {
	l := newLedger(dir)
	l.put = func(string, string, []byte) error { return errors.New("this ledger is only read") }
	for _, i := range ReadAll(dir) {
		l.publish(i)
	}
	return l
}

// ReadAll reads the incidents of a ledger in the same way.
func ReadAll(dir string) (all []Incident) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		key, ours := strings.CutSuffix(e.Name(), ".json")
		if !ours || strings.HasPrefix(e.Name(), temporary) {
			continue
		}
		if i, err := read(filepath.Join(dir, e.Name()), key); err == nil {
			all = append(all, i)
		}
	}
	return all
}
