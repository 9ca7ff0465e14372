package folder

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// ownRests is how long steward does not recreate its own folder after its removal: the user may be removing the whole
// parent, which must become empty. See docs/decisions.md, "steward's own folder is not created within ten seconds of its removal".
const ownRests = 10 * time.Second

// CapacityFile is the capacity document in steward's own folder.
const CapacityFile = "capacity.json"

// MakeOwn returns steward's own folder and creates it and its rooms if missing. It creates nothing outside: if the
// protocol's folder is gone, it stays gone. The folder must be open; the Root is valid until it is closed.
func (f *Folder) MakeOwn() (*jsonfile.Root, error) {
	if f.Root == nil || !f.Root.Alive() {
		return nil, Moved("the folder %s is gone", f.Shown(""))
	}
	if err := f.openOwn(); err != nil {
		return nil, err
	}
	if err := f.intact(); err != nil {
		return nil, err
	}
	for _, room := range f.opts.Rooms {
		if err := f.makeRoom(room); err != nil {
			return nil, err
		}
	}
	f.ready, f.gone = true, time.Time{}
	return f.own, nil
}

// openOwn opens the folder, and creates it unless it was removed a moment ago.
func (f *Folder) openOwn() error {
	if f.own != nil && f.own.Alive() {
		return nil
	}
	if f.own != nil {
		f.closeOwn()
		f.gone = f.Now
	}
	own, err := f.Root.Sub(f.opts.Own)
	if Missing(err) {
		if err := f.rests(f.gone); err != nil {
			return err
		}
		if err := f.layOwn(); err != nil {
			return err
		}
		own, err = f.Root.Sub(f.opts.Own)
	}
	if err != nil {
		return err
	}
	f.own = own
	return nil
}

// intact returns a conflict if the folder lost a file that steward never removes. The folder is then being removed file
// by file: a new file would prevent its removal.
func (f *Folder) intact() error {
	names, _, err := f.own.List(".")
	if err != nil {
		return err
	}
	for _, name := range f.names {
		if !slices.Contains(names, name) {
			f.shrunk = f.Now
		}
	}
	f.names = slices.DeleteFunc(names, func(name string) bool { return !stays(name) })
	return f.rests(f.shrunk)
}

// stays reports whether a file of the folder is permanent.
func stays(name string) bool { return strings.HasSuffix(name, ".lock") || name == CapacityFile }

// layOwn creates the folder. If Home is its parent, the folder gets Home's group and other write permissions.
func (f *Folder) layOwn() error {
	home, err := f.Root.Stat(f.opts.Home)
	if err != nil {
		return err
	}
	if f.opts.Home != path.Dir(f.opts.Own) {
		return f.Root.MkdirAll(f.opts.Own, 0o755)
	}
	return f.Root.Mkdir(f.opts.Own, 0o755|home.Mode.Perm()&0o022)
}

func (f *Folder) makeRoom(room string) error {
	_, err := f.Root.Stat(room)
	if !Missing(err) {
		return err
	}
	if f.ready {
		f.ready, f.gone = false, f.Now
	}
	if err := f.rests(f.gone); err != nil {
		return err
	}
	return f.Root.Mkdir(room, 0o755)
}

// Needs returns an error if a folder of the protocol, relative to Base, is missing: only boot creates those.
// See docs/decisions.md, "Only boot creates a protocol's folders".
func (f *Folder) Needs(dir string) error {
	if _, err := f.Root.Stat(dir); Missing(err) {
		return fmt.Errorf("the folder %s is missing; steward boot makes it", f.Shown(dir))
	}
	return nil
}

// rests returns a conflict if the folder or a part of it was removed recently, at the moment gone.
func (f *Folder) rests(gone time.Time) error {
	if away := f.Now.Sub(gone); !gone.IsZero() && away >= 0 && away < ownRests {
		return Moved("the folder %s was removed a moment ago", f.Shown(f.opts.Own))
	}
	return nil
}

func (f *Folder) closeOwn() {
	if f.own != nil {
		_ = f.own.Close()
	}
	f.own, f.names, f.shrunk, f.ready = nil, nil, time.Time{}, false
}
