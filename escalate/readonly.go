package escalate

import (
	"errors"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol/jsonfile"
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
	root, err := jsonfile.Open(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	names, _, _ := root.List(".")
	slices.Sort(names)
	for _, name := range names {
		key, ours := strings.CutSuffix(name, ".json")
		if !ours || isLeftover(name) {
			continue
		}
		if i, err := read(root, key); err == nil {
			all = append(all, i)
		}
	}
	return all
}
