package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The locks in steward's own folder of a project: one for the time of a change, one for the daemon that acts there.
const (
	guardFile = "guard.lock"
	SoleFile  = "steward.lock"
)

// guardPatience is how long a change waits for other processes of ours.
const guardPatience = 5 * time.Second

// guard takes the lock that our own processes take before they write in a project. It lies in own, steward's folder there.
type guard func(ctx context.Context, own *jsonfile.Root) (release func(), err error)

// guardLock is the guard of every process of ours. The lock is made in that very folder: one that was removed meanwhile
// stays so.
func GuardLock(ctx context.Context, own *jsonfile.Root) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	for range 10 { // a file that was replaced before it was locked guards nothing any more
		f, err := own.OpenLock(guardFile)
		if err != nil {
			return nil, InOwn(own, err)
		}
		lock, err := platform.LockOpenWait(ctx, f)
		if err == nil && own.Is(guardFile, f) {
			return func() { _ = lock.Unlock() }, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", filepath.Join(own.Dir(), guardFile), err)
		}
	}
	return nil, fmt.Errorf("lock %s: the file is being replaced again and again; lock files must never be removed", filepath.Join(own.Dir(), guardFile))
}

// sole makes one daemon the only one that acts in a project, in one protocol. Its lock is taken as soon as steward's own
// folder is there, and once for that folder: where nothing has to be changed, nothing is made.
type Sole struct {
	Dir, Own string         // the project, and steward's folder in it
	root     *jsonfile.Root // at own, while the lock is held
	file     *os.File
	Lock     *platform.FileLock
	Lost     time.Time // when the lock's file was removed in our sight
}

// soleRests is how long the lock is not made anew after its file was removed: somebody is removing the whole folder, and
// a new file would keep it from going.
const SoleRests = 10 * time.Second

// ready reports why steward must not act in the project at this moment: the disk, the folder's owner, or another steward
// is against it. A folder that is missing is no reason.
func (s *Sole) Ready() error {
	if s.held() {
		return nil
	}
	home, err := s.home()
	if errors.Is(err, jsonfile.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer home.Close()
	own, err := home.Sub(filepath.Base(s.Own))
	switch {
	case errors.Is(err, jsonfile.ErrNotExist):
		return InOwn(home, home.Writable())
	case err != nil:
		return InOwn(home, err)
	}
	if err := s.take(own); err != nil {
		_ = own.Close()
		if errors.Is(err, protocol.ErrConflict) {
			return nil // a change is refused until then
		}
		return err
	}
	return nil
}

// home opens the protocol's folder, through no link.
func (s *Sole) home() (*jsonfile.Root, error) {
	rel, err := filepath.Rel(s.Dir, filepath.Dir(s.Own))
	if err != nil {
		return nil, err
	}
	top, err := jsonfile.Open(s.Dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return top.Sub(filepath.ToSlash(rel))
}

// guarded is the guard of a daemon's changes: it holds the project's lock too.
func (s *Sole) Guarded(ctx context.Context, own *jsonfile.Root) (release func(), err error) {
	if !s.held() {
		mine, err := own.Sub(".")
		if err != nil {
			return nil, err
		}
		if err := s.take(mine); err != nil {
			_ = mine.Close()
			return nil, err
		}
	}
	return GuardLock(ctx, own)
}

// held reports whether the lock of the folder that is there now is ours.
func (s *Sole) held() bool {
	if s.Lock == nil {
		return false
	}
	if s.root.Alive() {
		if s.root.Is(SoleFile, s.file) {
			return true
		}
		if _, err := s.root.Stat(SoleFile); errors.Is(err, jsonfile.ErrNotExist) {
			s.Lost = time.Now()
		}
	}
	s.Close()
	return false
}

// take takes the lock in own, which is the caller's to close on an error. Who holds it stands inside.
func (s *Sole) take(own *jsonfile.Root) error {
	if err := foreign(own); err != nil {
		return err
	}
	if time.Since(s.Lost) < SoleRests {
		if _, err := own.Stat(SoleFile); errors.Is(err, jsonfile.ErrNotExist) {
			return fmt.Errorf("%w: %s was removed a moment ago", protocol.ErrConflict, filepath.Join(own.Dir(), SoleFile))
		}
	}
	f, err := own.OpenLock(SoleFile)
	if err != nil {
		return InOwn(own, err)
	}
	lock, err := platform.LockOpen(f)
	if err == nil && !own.Is(SoleFile, f) {
		err = fmt.Errorf("lock %s: the file was replaced meanwhile", filepath.Join(own.Dir(), SoleFile))
	}
	if err != nil {
		holder, _ := platform.ReadText(f)
		_ = f.Close()
		if errors.Is(err, platform.ErrLocked) {
			return fmt.Errorf("another steward acts in this project (%s): %w", terminal.OneWord(string(holder)), err)
		}
		return err
	}
	_ = lock.Write(fmt.Appendf(nil, "{\"pid\":%d,\"since\":%q}\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339)))
	s.root, s.file, s.Lock = own, f, lock
	return nil
}

func (s *Sole) Close() {
	if s.Lock != nil {
		_ = s.Lock.Unlock()
		_ = s.root.Close()
	}
	s.root, s.file, s.Lock = nil, nil, nil
}

// foreign finds what an earlier steward of another user has left in own, and this one may not write.
func foreign(own *jsonfile.Root) error {
	names, _, err := own.List(".")
	if err != nil {
		return InOwn(own, err)
	}
	if err := own.Writable(); err != nil {
		return InOwn(own, err)
	}
	for _, name := range names {
		st, err := own.Stat(name)
		if err != nil || st.UID < 0 || st.UID == os.Geteuid() || os.Geteuid() == 0 {
			continue
		}
		if st.Mode.IsDir() {
			room, err := own.Sub(name)
			if err == nil {
				err = room.Writable()
				_ = room.Close()
			}
			if err != nil {
				return ownedBy(filepath.Join(own.Dir(), name), st.UID, own.Dir(), err)
			}
		}
	}
	return nil
}

// inOwn explains why steward cannot write in a folder of its own, or in the one that is to hold it.
func InOwn(at *jsonfile.Root, err error) error {
	if err == nil || !errors.Is(err, jsonfile.ErrPermission) {
		return err
	}
	path := at.Dir()
	st, serr := at.Stat(".")
	for _, lock := range []string{guardFile, SoleFile} {
		if file, err := at.Stat(lock); err == nil && at.Writable() == nil && file.UID != os.Geteuid() {
			path, st = filepath.Join(path, lock), file
			break
		}
	}
	if serr != nil || st.UID < 0 || st.UID == os.Geteuid() {
		return err
	}
	return ownedBy(path, st.UID, path, err)
}

// ownedBy names the owner of what steward may not write, and the remedy.
func ownedBy(path string, uid int, tree string, err error) error {
	me := AccountOf(os.Geteuid())
	return terminal.Report(err, "%s belongs to %s, and %s may not write there; give it to %s: sudo chown -R %s %s",
		path, AccountOf(uid), me, me, me, terminal.ShellQuote(tree))
}

func AccountOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}
