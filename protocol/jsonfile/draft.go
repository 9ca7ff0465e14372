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

// namesFail becomes true when a complete file cannot be named here, for example without /proc or in a sandbox.
var namesFail atomic.Bool

// newDraft writes data into a new file in d, with the mode and owner of like. On error it leaves nothing behind. If the
// system supports it, the file has no name until it is complete, so a half-written draft does not block the removal of
// the folder.
func newDraft(d folder, data []byte, like Stamp, wait bool) (dirEntry, error) {
	e := dirEntry{folder: d, name: tempName()}
	f, err := (*os.File)(nil), errors.ErrUnsupported
	if !namesFail.Load() {
		f, err = d.nameless()
	}
	named := err != nil
	if named {
		f, err = d.open(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return dirEntry{}, err
	}
	err = fill(d, f, data, like, wait)
	if err == nil && !named {
		if err = d.give(f, e.name); unsupported(err) {
			_ = f.Close()
			namesFail.Store(true)
			return newDraft(d, data, like, wait)
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if named {
			_ = d.unlink(e.name)
		}
		return dirEntry{}, err
	}
	return e, nil
}

func fill(d folder, f *os.File, data []byte, like Stamp, wait bool) error {
	if like.UID < 0 {
		bequeath(d, f)
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := dress(f, like); err != nil || !wait {
		return err
	}
	return f.Sync()
}

// bequeath gives a file that root creates in another user's folder to the folder's owner, who could not use it
// otherwise. If that is not permitted, the file stays root's. See docs/decisions.md, "Root gives what it creates to the folder's owner".
func bequeath(d folder, f *os.File) {
	if os.Geteuid() != 0 {
		return
	}
	if st, err := fstat(d.f); err == nil && st.UID > 0 {
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
	perm := like.Mode.Perm()
	if like.UID >= 0 && (like.UID != st.UID || like.GID != st.GID) && f.Chown(like.UID, like.GID) != nil {
		group := f.Chown(-1, like.GID) == nil
		if like.UID != st.UID && perm&0o002 == 0 && !(group && perm&0o020 != 0) {
			return &Error{
				Err:  fs.ErrPermission,
				Hint: "the file belongs to another user, who could not write it any more; make it group-writable (chmod g+w): " + like.owner(),
			}
		}
	}
	if perm == st.Mode.Perm() {
		return nil
	}
	return f.Chmod(perm)
}

// publish puts a draft in the place of target, if that is still the judged file. If the system can swap two entries, a
// file that arrived at the last moment is swapped back; elsewhere a race of some microseconds remains.
func publish(draft, target dirEntry, old *Late) error {
	if old == nil {
		err := moveNew(draft, target)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: it was created meanwhile", ErrConflict)
		}
		return err
	}
	if err := old.unchanged(target); err != nil {
		return err
	}
	ours, err := draft.stat()
	if err != nil {
		return err
	}
	err = draft.exchange(draft.name, target.name)
	switch {
	case unsupported(err):
		return draft.rename(draft.name, target.folder, target.name)
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case err != nil:
		return err
	}
	// The swap took a file out of the place. If that is not the judged file, put it back; if yet another file has
	// arrived since, that newest file wins.
	out, err := draft.stat()
	if err != nil || out.sameFile(old.stamp) {
		return err
	}
	if err := draft.exchange(draft.name, target.name); err != nil {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if back, err := draft.stat(); err == nil && !back.sameFile(ours) {
		_ = draft.exchange(draft.name, target.name)
	}
	return errReplaced
}

// IsDraft reports whether the name is that of a draft.
func IsDraft(name []byte) bool {
	return bytes.HasPrefix(name, []byte(tempPrefix)) && bytes.HasSuffix(name, []byte(tempSuffix))
}

// Sweep removes drafts that a crash of steward left in the folder p, if untouched for a minute before now. It ignores
// all other files.
func (r *Root) Sweep(p string, now time.Time) error {
	var drafts []string
	_, err := r.Each(p, func(name []byte) {
		if IsDraft(name) {
			drafts = append(drafts, string(name))
		}
	})
	if err != nil {
		return err
	}
	return r.SweepThese(p, drafts, now)
}

// SweepThese is Sweep for drafts with known names: it does not list the folder.
func (r *Root) SweepThese(p string, drafts []string, now time.Time) error {
	return r.in(opSweep, p, func(d folder) (err error) {
		for _, name := range drafts {
			st, serr := d.lstat(name)
			// Use ctime too: a swapped-out document keeps its old mtime.
			if serr != nil || !IsDraft([]byte(name)) || !st.Mode.IsRegular() || now.UnixNano()-max(st.MtimeNs, st.CtimeNs) < int64(tempAge) {
				continue
			}
			if uerr := d.unlink(name); uerr != nil && !errors.Is(uerr, fs.ErrNotExist) {
				err = uerr
			}
		}
		return err
	})
}
