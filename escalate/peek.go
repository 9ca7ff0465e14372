package escalate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/escalate/rules"
)

// ReadHeads reads the heads of a ledger that another process may have open, and changes nothing. Unreadable files are
// skipped.
func ReadHeads(dir string) map[string]rules.Head {
	heads := map[string]rules.Head{}
	for _, i := range ReadAll(dir) {
		heads[i.Key] = i.head()
	}
	return heads
}

// ReadLedger returns a read-only ledger of what ReadAll finds: changes to it cannot be written.
func ReadLedger(dir string) *Ledger {
	l := newLedger(dir)
	l.put = func(string, string, []byte) error { return errors.New("this ledger is only read") }
	for _, i := range ReadAll(dir) {
		l.publish(i)
	}
	return l
}

// ReadAll reads the incidents of a ledger in the same way as ReadHeads.
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
