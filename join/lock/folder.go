package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// own is steward's folder in a project. locksDir, below it, holds the locks of all protocols.
// See docs/decisions.md, "All locks of a project lie in .claude/steward/locks/".
const (
	own      = ".claude/steward"
	locksDir = "locks"
	tombFile = "tombstones.jsonl"
	// ignoreFile hides the folder's content from git: clean -fd, stash -u and add -A.
	ignoreFile = ".gitignore"
	ignoreAll  = "*\n"
)

// folder is steward's folder in a project, with the files of all locks. Several goroutines may use it at once.
type folder struct {
	dir  string       // of the project
	step func(string) // of Options

	mu   sync.Mutex
	root *jsonfile.Root // nil: not open
}

// open returns steward's folder in the project. If create is set it creates a missing folder, else the error is
// jsonfile.ErrNotExist.
func (f *folder) open(create bool) (*jsonfile.Root, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.root != nil && f.root.Alive() && (!create || createMissing(f.root) == nil) {
		return f.root, nil
	}
	f.drop()
	top, err := jsonfile.Open(f.dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if create {
		if err := top.MkdirAll(own, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := top.Sub(own)
	if err == nil && create {
		err = createMissing(root)
	}
	if err == nil {
		_, _, err = root.List(locksDir) // List refuses a link: the flock is taken by path
	}
	if err != nil {
		return nil, err
	}
	f.root = root
	return root, nil
}

// createMissing creates what is missing in steward's folder. The locks work without the ignore file, so its error is ignored.
func createMissing(root *jsonfile.Root) error {
	if err := root.MkdirAll(locksDir, 0o755); err != nil {
		return err
	}
	_ = root.Create(ignoreFile, []byte(ignoreAll), 0o644, jsonfile.Volatile)
	return nil
}

func (f *folder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
}

// drop closes the root. The caller holds mu.
func (f *folder) drop() {
	if f.root != nil {
		_ = f.root.Close()
		f.root = nil
	}
}

// path is the absolute path of one of a lock's files.
func (f *folder) path(file, suffix string) string {
	return filepath.Join(f.dir, filepath.FromSlash(own), locksDir, file+suffix)
}

// names lists all real locks that ever existed: the name by file.
func (f *folder) names() (map[string]string, error) {
	root, err := f.open(false)
	if errors.Is(err, jsonfile.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files, _, err := root.List(locksDir)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, file := range files {
		file, is := strings.CutSuffix(file, lockSuffix)
		if name, ok := nameOf(file); is && ok {
			names[file] = name
		}
	}
	return names, nil
}

// read reads a lock's record and its second copy; missing files give zero values. ErrDamaged: the record is invalid,
// but ceiling is still valid. An invalid copy counts as missing.
func (f *folder) read(name, file string) (r record, ceiling uint64, err error) {
	root, err := f.open(false)
	if err != nil {
		return record{Name: name}, 0, err
	}
	var second reserve
	if blob, err := root.Read(locksDir+"/"+file+copySuffix, maxRecord); err == nil {
		if json.Unmarshal(blob.Data, &second) == nil && strings.EqualFold(second.Name, name) && second.Ceiling <= maxFence {
			ceiling = second.Ceiling
		}
	}
	blob, err := root.Read(locksDir+"/"+file+recordSuffix, maxRecord)
	switch {
	case errors.Is(err, jsonfile.ErrNotExist):
		return record{Name: name}, ceiling, nil
	case errors.Is(err, jsonfile.ErrTooBig), errors.Is(err, jsonfile.ErrHostile), errors.Is(err, jsonfile.ErrTorn):
		return record{Name: name}, ceiling, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return record{}, 0, err
	}
	if err := r.decode(blob.Data, name); err != nil {
		return record{Name: name, raw: blob.Data}, ceiling, fmt.Errorf("%w: %s: %w", ErrDamaged, file+recordSuffix, err)
	}
	return r, ceiling, nil
}

// write writes a record, after the second copy if its ceiling must rise. Both are on disk when write returns.
func (f *folder) write(file string, r record, ceiling uint64) error {
	root, err := f.open(false)
	if err != nil {
		return err
	}
	if r.Fence > ceiling {
		if err := put(root, file+copySuffix, reserve{r.Name, r.Fence + ahead - 1}); err != nil {
			return err
		}
		f.step("copied")
	}
	return put(root, file+recordSuffix, r)
}

// tombstone is a line of steward/tombstones.jsonl about a real lock. Lines about agents' own locks carry a checksum.
type tombstone struct {
	At       string          `json:"at"`
	Resource string          `json:"resource"`
	Lock     json.RawMessage `json:"lock"`
	Reason   string          `json:"reason"`
	Why      string          `json:"why"`
	By       string          `json:"by"`
}

// addTombstone records a break in the tombstones.
func (f *folder) addTombstone(b Breaking, rec record, reason string, now time.Time) error {
	root, err := f.open(false)
	if err != nil {
		return err
	}
	raw, err := jsonfile.EncodeLine(rec)
	if rec.raw != nil {
		raw, err = jsonfile.EncodeLine(strings.ToValidUTF8(string(rec.raw), "�")) // the file itself stays unchanged
	}
	if err != nil {
		return err
	}
	line, err := jsonfile.EncodeLine(tombstone{jsonfile.FormatTime(now), b.Status.Name, raw, reason, b.Why, b.By})
	if err != nil {
		return err
	}
	return root.Append(tombFile, line)
}
