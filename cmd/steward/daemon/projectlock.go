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

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"
)

// The locks in steward's own folder inside a project: guardFile is held during a change, LockFile by the daemon that
// acts there.
const (
	guardFile = "guard.lock"
	LockFile  = "steward.lock"
)

// guardPatience is how long a change waits for other steward processes.
const guardPatience = 5 * time.Second

// guard takes the lock that steward processes take before they write in a project. The lock lies in own, steward's
// folder there.
type guard func(ctx context.Context, own *jsonfile.Root) (release func(), err error)

// GuardLock is the guard of every steward process. It creates the lock only in that very folder: a folder that was
// removed in the meantime is not created again.
func GuardLock(ctx context.Context, own *jsonfile.Root) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	for range 10 { // a file that was replaced before it was locked protects nothing
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

// ProjectLock makes one daemon the only one that acts in a project, per protocol. It takes its lock as soon as steward's own
// folder exists, and once per folder. If nothing has to be changed, it creates nothing.
type ProjectLock struct {
	Dir, Own string         // the project, and steward's folder in it
	root     *jsonfile.Root // at Own, while the lock is held
	file     *os.File
	Lock     *platform.FileLock
	Lost     time.Time // when this process saw that the lock file was removed
}

// LockRecreateDelay is how long the lock file is not created again after its removal: the whole folder may be in the course of
// removal, and a new file would prevent that.
const LockRecreateDelay = 10 * time.Second

// Ready returns the reason why steward must not act in the project now: the disk, the folder's owner, or another
// steward. A missing folder is no reason.
func (s *ProjectLock) Ready() error {
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
			return nil // only changes are rejected until LockRecreateDelay is over
		}
		return err
	}
	return nil
}

// home opens the protocol's folder without following links.
func (s *ProjectLock) home() (*jsonfile.Root, error) {
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

// Guarded is the guard of the daemon's changes: it also holds the project's lock.
func (s *ProjectLock) Guarded(ctx context.Context, own *jsonfile.Root) (release func(), err error) {
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

// held reports whether this process holds the lock of the folder that exists now.
func (s *ProjectLock) held() bool {
	if s.Lock == nil {
		return false
	}
	if s.root.Alive() {
		if s.root.Is(LockFile, s.file) {
			return true
		}
		if _, err := s.root.Stat(LockFile); errors.Is(err, jsonfile.ErrNotExist) {
			s.Lost = time.Now()
		}
	}
	s.Close()
	return false
}

// take takes the lock in own. On an error the caller must close own. The lock file names its holder.
func (s *ProjectLock) take(own *jsonfile.Root) error {
	if err := foreign(own); err != nil {
		return err
	}
	if time.Since(s.Lost) < LockRecreateDelay {
		if _, err := own.Stat(LockFile); errors.Is(err, jsonfile.ErrNotExist) {
			return fmt.Errorf("%w: %s was removed a moment ago", protocol.ErrConflict, filepath.Join(own.Dir(), LockFile))
		}
	}
	f, err := own.OpenLock(LockFile)
	if err != nil {
		return InOwn(own, err)
	}
	lock, err := platform.LockOpen(f)
	if err == nil && !own.Is(LockFile, f) {
		err = fmt.Errorf("lock %s: the file was replaced meanwhile", filepath.Join(own.Dir(), LockFile))
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

func (s *ProjectLock) Close() {
	if s.Lock != nil {
		_ = s.Lock.Unlock()
		_ = s.root.Close()
	}
	s.root, s.file, s.Lock = nil, nil, nil
}

// foreign returns an error if own holds a folder that another user's steward left and this one may not write.
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

// InOwn explains why steward cannot write in its own folder, or in the folder that is to contain it.
func InOwn(at *jsonfile.Root, err error) error {
	if err == nil || !errors.Is(err, jsonfile.ErrPermission) {
		return err
	}
	path := at.Dir()
	st, serr := at.Stat(".")
	for _, lock := range []string{guardFile, LockFile} {
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

// ownedBy names the owner of a path that steward may not write, and the remedy.
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
