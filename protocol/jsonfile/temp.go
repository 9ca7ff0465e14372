package jsonfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// A draft's name matches no pattern that clients poll with: hidden, no .json, no task_.
const (
	tempPrefix = ".steward-"
	tempSuffix = ".tmp"
	tempAge    = time.Minute
)

func tempName() string { return tempPrefix + rand.Text() + tempSuffix }

// draft writes data into a new file next to its target, with the mode and owner of like, and returns its name. On error
// it leaves nothing behind. If the system supports it, the file has no name until it is complete, so a half-written
// draft does not block the removal of the folder.
func (d folder) draft(data []byte, like Stamp, wait bool) (name string, err error) {
	name = tempName()
	f, err := (*os.File)(nil), errors.ErrUnsupported
	if !namesFail.Load() {
		f, err = d.nameless()
	}
	named := err != nil
	if named {
		f, err = d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return "", err
	}
	if like.UID < 0 {
		d.bequeath(f)
	}
	_, err = f.Write(data)
	if err == nil {
		err = dress(f, like)
	}
	if err == nil && wait {
		err = f.Sync()
	}
	if err == nil && !named {
		if err = d.give(f, name); unsupported(err) {
			_ = f.Close()
			namesFail.Store(true)
			return d.draft(data, like, wait)
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if named {
			_ = d.unlink(name)
		}
		return "", err
	}
	return name, nil
}

// namesFail becomes true when a complete file cannot be named here, for example without /proc or in a sandbox.
var namesFail atomic.Bool

// bequeath gives a file that root creates in another user's folder to the folder's owner, who could not use it
// otherwise. If that is not permitted, the file stays root's. See docs/decisions.md, "Root gives what it creates to the folder's owner".
func (d folder) bequeath(f interface{ Chown(uid, gid int) error }) {
	if os.Geteuid() != 0 {
		return
	}
	if st, err := d.stat(); err == nil && st.UID > 0 {
		_ = f.Chown(st.UID, st.GID)
	}
}

// dress gives f the owner and mode of the file that it will replace. If the owner cannot be kept and would lose write
// access, the replacement would lock the agent out of its file: refuse.
func dress(f *os.File, like Stamp) error {
	st, err := fstat(f)
	if err != nil {
		return err
	}
	if like.UID >= 0 && (like.UID != st.UID || like.GID != st.GID) {
		if err := keepOwner(f, st, like); err != nil {
			return err
		}
	}
	if like.Mode.Perm() == st.Mode.Perm() {
		return nil
	}
	return f.Chmod(like.Mode.Perm())
}

func keepOwner(f *os.File, own, like Stamp) error {
	if chown(f, like.UID, like.GID) == nil {
		return nil
	}
	group := chown(f, -1, like.GID) == nil
	perm := like.Mode.Perm()
	if like.UID == own.UID || perm&0o002 != 0 || group && perm&0o020 != 0 {
		return nil
	}
	return &Error{
		Err:  fs.ErrPermission,
		Hint: "the file belongs to another user, who could not write it any more; make it group-writable (chmod g+w): " + like.owner(),
	}
}

// moveNew renames and never overwrites. If the system has no such call, a hard link does the same in two steps; both
// names exist for a moment.
func (d folder) moveNew(old string, to folder, name string) error {
	err := d.renameNew(old, to, name)
	if !unsupported(err) {
		return err
	}
	if err := d.link(old, to, name); err != nil {
		return err
	}
	return d.unlink(old)
}

func (d folder) settle(wait bool) error {
	if !wait {
		return nil
	}
	if err := d.sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// Sweep removes drafts that a crash of steward left in the folder p, if untouched for a minute before now. It ignores
// all other files.
func (r *Root) Sweep(p string, now time.Time) (removed int, err error) {
	var drafts []string
	_, err = r.Each(p, func(name []byte) {
		if IsDraft(name) {
			drafts = append(drafts, string(name))
		}
	})
	if err != nil {
		return 0, err
	}
	return r.SweepThese(p, drafts, now)
}

// IsDraft reports whether the name is that of a draft.
func IsDraft(name []byte) bool {
	return bytes.HasPrefix(name, []byte(tempPrefix)) && bytes.HasSuffix(name, []byte(tempSuffix))
}

// SweepThese is Sweep for drafts with known names: it does not list the folder.
func (r *Root) SweepThese(p string, drafts []string, now time.Time) (removed int, err error) {
	if len(drafts) == 0 {
		return 0, nil
	}
	d, err := r.descend(p)
	if err != nil {
		return 0, r.fail(opSweep, p, err)
	}
	defer d.release()
	for _, name := range drafts {
		if !IsDraft([]byte(name)) {
			continue
		}
		st, serr := d.lstat(name)
		// Use ctime too: a swapped-out document keeps its old mtime.
		if serr != nil || !st.Mode.IsRegular() || now.UnixNano()-max(st.MtimeNs, st.CtimeNs) < int64(tempAge) {
			continue
		}
		if uerr := d.unlink(name); uerr == nil {
			removed++
		} else if !errors.Is(uerr, fs.ErrNotExist) {
			err = r.fail(opSweep, p, uerr)
		}
	}
	return removed, err
}
