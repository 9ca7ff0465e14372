// Package jsonfile is the only access to project files: every read is bounded and refuses anything but a plain file,
// every write is atomic, and a JSON document is edited without touching unrelated bytes.
package jsonfile

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// Root is an open project folder. Paths given to its methods are relative, slash-separated and cannot leave the folder:
// no "..", no absolute path and no symbolic link, wherever it points. Its methods are safe for concurrent use.
type Root struct {
	top  folder
	dir  string // absolute path under which the folder was opened
	base string // path of this folder inside the outermost Root, for messages
}

// Open opens the folder dir, which may itself be reached through symbolic links.
func Open(dir string) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &Error{Op: opOpen, Path: dir, Err: err}
	}
	top, err := openTop(abs)
	if err != nil {
		return nil, newError(opOpen, dir, err)
	}
	return &Root{top: top, dir: abs}, nil
}

// Close releases the folder. A Late or a Sub taken from it stays usable.
func (r *Root) Close() error { return r.top.close() }

// Sub opens the folder rel below r as a separate Root. It keeps referring to that same folder even if another folder
// takes its name: see Alive.
func (r *Root) Sub(rel string) (*Root, error) {
	d, err := descend(r.top, rel)
	if err != nil {
		return nil, r.fail(opOpen, rel, err)
	}
	return &Root{top: d, dir: filepath.Join(r.dir, filepath.FromSlash(rel)), base: path.Join(r.base, rel)}, nil
}

// Dir is the absolute path under which the folder was opened.
func (r *Root) Dir() string { return r.dir }

// Alive reports whether the opened path still leads to this folder. It is false when the folder was deleted, moved, or
// deleted and recreated under the same name; the Root must then be opened again. A disk error proves nothing: if the
// path cannot be examined, the folder counts as present.
func (r *Root) Alive() bool { return r.top.isAt(r.dir) }

// Writable reports why no file can be created in the folder; nil if one can, or if only an attempt would tell.
func (r *Root) Writable() error { return r.fail(opCreate, ".", r.top.mayWrite()) }

// at runs do for the name p, and describes its error.
func (r *Root) at(op, p string, do func(dirEntry) error) error {
	e, err := reach(r.top, p)
	if err == nil {
		err = do(e)
		e.release()
	}
	return r.fail(op, p, err)
}

// in runs do in the folder p, and describes its error.
func (r *Root) in(op, p string, do func(folder) error) error {
	d, err := descend(r.top, p)
	if err == nil {
		err = do(d)
		_ = d.close()
	}
	return r.fail(op, p, err)
}

// fail is newError for a path below r; a permission error gets a hint that names the missing permission. It returns nil
// for a nil err.
func (r *Root) fail(op, p string, err error) error {
	if err == nil {
		return nil
	}
	e := newError(op, path.Join(r.base, p), err)
	if e.Hint == "" && errors.Is(err, fs.ErrPermission) {
		if inner, ok := err.(*Error); ok && inner.Op == opRead {
			op = opRead
		}
		e.Hint = missing(r, op, p)
	}
	return e
}

// dirEntry is a name in an open folder.
type dirEntry struct {
	folder
	name string
	own  bool // the folder was opened for this entry
}

func (e dirEntry) release() {
	if e.own {
		_ = e.close()
	}
}

func (e dirEntry) stat() (Stamp, error) { return e.lstat(e.name) }

// reach opens the folder that holds p.
func reach(top folder, p string) (dirEntry, error) {
	if err := checkPath(p); err != nil {
		return dirEntry{}, err
	}
	dir, name := path.Split(p)
	if dir == "" {
		return dirEntry{folder: top, name: name}, nil
	}
	d, err := descend(top, strings.TrimSuffix(dir, "/"))
	return dirEntry{d, name, true}, err
}

// descend opens the folder p, one component at a time, and follows no link: os.Root would follow links that stay inside,
// and would block forever on a FIFO. "." gives a new handle of top itself, because a handle's read position must not be
// shared.
func descend(top folder, p string) (folder, error) {
	if p == "." {
		return top.sub(".")
	}
	if err := checkPath(p); err != nil {
		return folder{}, err
	}
	at := top
	for name := range strings.SplitSeq(p, "/") {
		next, err := enter(at, name)
		if at != top {
			_ = at.close()
		}
		if err != nil {
			return folder{}, err
		}
		at = next
	}
	return at, nil
}

// enter opens a folder in d. If something else has the name, the error says what: the system only reports "not a
// directory".
func enter(d folder, name string) (folder, error) {
	next, err := d.sub(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return next, err
	}
	if st, serr := d.lstat(name); serr == nil && !st.Mode.IsDir() {
		err = hostile("folder "+name+" on the way", st)
	}
	return folder{}, err
}

func checkPath(p string) error {
	if !fs.ValidPath(p) || p == "." || strings.ContainsRune(p, 0) {
		return errPath
	}
	return nil
}

// PlainName reports whether s can be used as a single file name: protocol ids become file names, and an id that is no
// plain name must never become a path.
func PlainName(s string) bool {
	if s == "" || len(s) > 200 || strings.ContainsAny(s, `/\`) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) && fs.ValidPath(s) && s != "."
}
