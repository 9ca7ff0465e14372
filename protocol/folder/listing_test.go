package folder

import (
	"os"
	"slices"
	"testing"
	"time"
)

// A folder is listed again only when an entry may have appeared or disappeared.
func TestListing(t *testing.T) {
	r := newRoom(t, "{}")
	l := Listing{Strict: true}
	wants := func(what string, want bool, names ...string) {
		t.Helper()
		if changed := l.Read(r.Folder, "box"); changed != want || !slices.Equal(l.Names, names) {
			t.Errorf("%s: %q, %v; want %q, %v", what, l.Names, changed, names, want)
		}
	}
	wants("missing", false)
	wants("still missing", false)
	r.do(os.Mkdir(r.path("box"), 0o755))
	r.do(os.WriteFile(r.path("box/a"), nil, 0o644))
	wants("a file is new, and the time not settled", true, "a")
	r.Begin(time.Now().Add(time.Minute))
	wants("the time has settled", true, "a")
	wants("nothing new", false, "a")
	r.do(os.WriteFile(r.path("box/b"), nil, 0o644))
	r.do(os.Chtimes(r.path("box"), time.Now(), time.Now().Add(time.Second)))
	wants("another file", true, "a", "b")
	r.do(os.RemoveAll(r.path("box")))
	r.do(os.WriteFile(r.path("box"), nil, 0o644))
	wants("no folder", false, "a", "b")
	if !r.Patience.Has("box") {
		t.Error("the file in the folder's place is no trouble")
	}
	r.do(os.Remove(r.path("box")))
	wants("gone", true)
	if r.Patience.Has("box") {
		t.Error("a missing folder is trouble")
	}
	if loose := (Listing{}); loose.Read(r.Folder, doc) || loose.There || r.Patience.Has(doc) {
		t.Errorf("a file in place of a folder: %+v, %v", loose, r.Patience.Troubles())
	}
}
