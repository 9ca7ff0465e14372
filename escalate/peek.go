package escalate

import (
	"os"
	"path/filepath"
	"strings"
)

// ReadHeads reads the heads of a ledger that somebody else may have open, and touches nothing. What cannot be read
// is left out.
func ReadHeads(dir string) map[string]Head {
	heads := map[string]Head{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		key, ours := strings.CutSuffix(e.Name(), ".json")
		if !ours || strings.HasPrefix(e.Name(), temporary) {
			continue
		}
		if i, err := read(filepath.Join(dir, e.Name()), key); err == nil {
			heads[key] = i.head()
		}
	}
	return heads
}
