package folder

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	base = ".proto"
	doc  = "data.json"
)

// room is a project with one folder under test, and its own clock that begins now.
type room struct {
	*Folder
	t      *testing.T
	dir    string
	forgot int // how often everything was dropped
	guard  error
	held   bool // the guard lock is taken
}

func newRoom(t *testing.T, text string) *room {
	t.Helper()
	r := &room{t: t, dir: t.TempDir()}
	r.Folder = New(Options{Dir: r.dir, Base: base, Own: "steward", Sweep: []string{".", "steward"}, Forget: func() { r.forgot++ },
		Guard: func(context.Context, *jsonfile.Root) (func(), error) {
			r.held = r.guard == nil
			return func() { r.held = false }, r.guard
		}})
	t.Cleanup(r.Close)
	if r.forgot != 1 {
		t.Fatalf("New forgets %d times, want once", r.forgot)
	}
	if r.Begin(time.Now()); text != "" {
		r.write(text)
		r.do(r.Open())
	}
	return r
}

func (r *room) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) path(rel string) string { return filepath.Join(r.dir, base, filepath.FromSlash(rel)) }

// write writes the document in place, as clients do.
func (r *room) write(text string) {
	r.t.Helper()
	r.do(os.MkdirAll(r.path("."), 0o755))
	r.do(os.WriteFile(r.path(doc), []byte(text), 0o644))
}

func (r *room) wants(text string) {
	r.t.Helper()
	got, err := os.ReadFile(r.path(doc))
	if err != nil || string(got) != text {
		r.t.Errorf("the document is %s (%v), want %s", got, err, text)
	}
}

// look runs a scan that much later.
func (r *room) look(after time.Duration) (protocol.Snapshot, bool) {
	return r.Scan(r.t.Context(), protocol.ScanOrder{Now: r.Now.Add(after)})
}
