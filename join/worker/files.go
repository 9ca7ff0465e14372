package worker

import (
	"crypto/sha256"
	"io"
	"os"
	"slices"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// hashed is up to which size, in bytes, a file's content is compared; beyond it size and time must do.
const hashed = 64 << 20

// state is what a path held at one moment.
type state struct {
	there bool
	mode  os.FileMode
	size  int64
	time  time.Time
	sum   [sha256.Size]byte
}

// changed reports whether the content is another one.
func (s state) changed(now state) bool {
	if s.mode.IsRegular() && now.mode.IsRegular() && s.size == now.size && s.size <= hashed {
		return s.sum != now.sum
	}
	return s.there != now.there || s.mode.Type() != now.mode.Type() || s.size != now.size || !s.time.Equal(now.time)
}

// stateOf looks at a path. Only plain files are opened: a FIFO would never answer.
func stateOf(path string) state {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		info, err = os.Stat(path)
	}
	if err != nil {
		return state{}
	}
	s := state{there: true, mode: info.Mode(), size: info.Size(), time: info.ModTime()}
	if !s.mode.IsRegular() || s.size > hashed {
		return s
	}
	f, err := openPlain(path)
	if err != nil {
		return s
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, hashed)); err == nil {
		h.Sum(s.sum[:0])
	}
	return s
}

// picture is what the paths that a request names held before the command ran.
type picture map[string]state

func (p *plan) picture() picture {
	before := picture{}
	for _, path := range slices.Concat(p.modify, p.artifacts) {
		if _, known := before[path]; !known {
			before[path] = stateOf(path)
		}
	}
	return before
}

// compare adds to a result what the command has made and changed, beside what it reports itself.
func (before picture) compare(p *plan, r *agentstatus.Result) {
	for _, path := range p.artifacts {
		now := stateOf(path)
		if now.there && before[path].changed(now) && !slices.Contains(r.Body.Artifacts, path) {
			r.Body.Artifacts = append(r.Body.Artifacts, path)
		}
	}
	for _, path := range p.modify {
		if before[path].changed(stateOf(path)) && !slices.Contains(r.Body.Modified, path) {
			r.Body.Modified = append(r.Body.Modified, path)
		}
	}
}
