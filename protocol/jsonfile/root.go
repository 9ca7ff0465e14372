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
	// OneLink makes every read refuse a file that has more than one hard link (ErrHostile). Set it before the first
	// use. A file that a client creates with ln(1) has two links for a moment.
	OneLink bool

	top  folder
	dir  string // absolute path under which the folder was opened
	base string // path of this folder inside the outermost Root, for messages
}

// Open opens the folder dir, which may itself be reached through symbolic
// links.
func Open(dir string) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &Error{Op: "open folder", Path: dir, Err: err}
	}
	top, err := openTop(abs)
	if err != nil {
		return nil, newError("open folder", dir, err)
	}
	return &Root{top: top, dir: abs}, nil
}

// Close releases the folder. A Late or a Sub taken from it stays usable.
func (r *Root) Close() error { return r.top.close() }

// Sub opens the folder rel below r as a separate Root. It keeps referring to that same folder even if another folder
// takes its name: see Alive.
func (r *Root) Sub(rel string) (*Root, error) {
	d, err := r.descend(rel)
	if err != nil {
		return nil, r.fail("open folder", rel, err)
	}
	return &Root{
		OneLink: r.OneLink,
		top:     d.folder,
		dir:     filepath.Join(r.dir, filepath.FromSlash(rel)),
		base:    path.Join(r.base, rel),
	}, nil
}

// Dir is the absolute path under which the folder was opened.
func (r *Root) Dir() string { return r.dir }

// Alive reports whether the opened path still leads to this folder. It is false when the folder was deleted, moved, or
// deleted and recreated under the same name; the Root must then be opened again. A disk error proves nothing: if the
// path cannot be examined, the folder counts as present.
func (r *Root) Alive() bool { return r.top.isAt(r.dir) }

// PlainName reports whether s can be used as a single file name: protocol ids become file names, and an id that is no
// plain name must never become a path.
func PlainName(s string) bool {
	if s == "" || len(s) > 200 || strings.ContainsAny(s, `/\`) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) &&
		fs.ValidPath(s) && s != "." && filepath.IsLocal(s)
}

// reached is a folder found on the way to a file; close it only if it was opened for this purpose.
type reached struct {
	folder
	own bool
}

func (d reached) release() {
	if d.own {
		_ = d.close()
	}
}

// parent opens the folder that holds p and returns the name of p inside it.
func (r *Root) parent(p string) (reached, string, error) {
	if err := checkPath(p); err != nil {
		return reached{}, "", err
	}
	dir, name := path.Split(p)
	if dir == "" {
		return reached{folder: r.top}, name, nil
	}
	d, err := r.walk(strings.Split(strings.TrimSuffix(dir, "/"), "/"))
	return d, name, err
}

// descend opens the folder p; "." gives a new handle of the root itself, since a handle's read position must not be
// shared.
func (r *Root) descend(p string) (reached, error) {
	if p == "." {
		f, err := r.top.again()
		return reached{f, true}, err
	}
	if err := checkPath(p); err != nil {
		return reached{}, err
	}
	return r.walk(strings.Split(p, "/"))
}

// walk descends one component at a time and follows no link: os.Root would follow links that stay inside, and would
// block forever on a FIFO.
func (r *Root) walk(names []string) (reached, error) {
	at := reached{folder: r.top}
	for _, name := range names {
		next, err := at.sub(name)
		if err != nil {
			err = at.explain(name, err)
			at.release()
			return reached{}, err
		}
		at.release()
		at = reached{next, true}
	}
	return at, nil
}

// explain turns the error of opening a folder into "that is a symbolic link" if it is one: the system only reports "not
// a directory".
func (d folder) explain(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	st, serr := d.lstat(name)
	if serr == nil && !st.Mode.IsDir() {
		return hostile("folder "+name+" on the way", st)
	}
	return err
}

func checkPath(p string) error {
	switch {
	case !fs.ValidPath(p) || p == ".", !filepath.IsLocal(filepath.FromSlash(p)):
		return errPath
	case strings.ContainsRune(p, 0), filepath.Separator == '\\' && strings.ContainsAny(p, `\:`):
		return errPath
	}
	return nil
}
