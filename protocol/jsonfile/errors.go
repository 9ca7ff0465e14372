package jsonfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Sentinels that callers test with errors.Is.
var (
	// ErrTorn: the document is empty or ends too early. A writer is probably active; read again. Only a file that stays
	// torn is a fault.
	ErrTorn = errors.New("document is not complete")
	// ErrBad: the document breaks a rule of JSON or of this package. One read proves nothing: two concurrent writers
	// can cause the same error.
	ErrBad = errors.New("document is not valid")
	// ErrHostile: not a plain file (link, FIFO, device, socket, folder), or a path that leads out of the root. Waiting
	// does not help.
	ErrHostile = errors.New("not a plain file of this project")
	// ErrTooBig: larger than the reader allows.
	ErrTooBig = errors.New("file is too big")
	// ErrConflict: the file is not the one that the caller judged. Read it again.
	ErrConflict = errors.New("file has changed since it was judged")
	// ErrShape: an edit leads through a value that cannot hold the path.
	ErrShape = errors.New("document has another shape")
	// ErrNoSpace: the disk or the quota is full. The old file is intact.
	ErrNoSpace = errors.New("no space left")
	// ErrReadOnly: the file system is mounted read-only.
	ErrReadOnly = errors.New("read-only file system")

	// ErrManyFiles: this process, or the machine, cannot open more files. An unreadable file is then not proved to be
	// gone.
	ErrManyFiles = errors.New("too many open files")

	// The usual three, so that callers need one import.
	ErrPermission = fs.ErrPermission
	ErrNotExist   = fs.ErrNotExist
	ErrExist      = fs.ErrExist
)

var (
	errPath     = fmt.Errorf("%w: path is absolute or leaves the folder", ErrHostile)
	errGone     = fmt.Errorf("%w: it is gone", ErrConflict)
	errReplaced = fmt.Errorf("%w: another file took its place", ErrConflict)
)

// Error is the error type of all functions here. Path is relative to the outermost Root (empty for functions that work
// on bytes); At is set if a document was refused; Hint is advice for the operator and may be empty.
type Error struct {
	Op, Path, Hint string
	At             Position
	Err            error
}

// Position is a place in a document. Line and Column count from 1, in bytes; the zero Position means none. Field is the
// dotted path of the offending value and may be empty.
type Position struct {
	Offset, Line, Column int
	Field                string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.At.Line > 0 {
		fmt.Fprintf(&b, " at line %d, column %d (byte %d)", e.At.Line, e.At.Column, e.At.Offset)
	}
	if e.At.Field != "" {
		b.WriteString(", field " + e.At.Field)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is lets errors.Is find ErrNoSpace, ErrReadOnly and ErrManyFiles behind the
// system's codes.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNoSpace:
		return isNoSpace(e.Err)
	case ErrReadOnly:
		return isReadOnly(e.Err)
	case ErrManyFiles:
		return isTooManyFiles(e.Err)
	}
	return false
}

// Operations, as shown in messages.
const (
	opOpen   = "open folder"
	opRead   = "read"
	opStat   = "look at"
	opList   = "list"
	opCreate = "create"
	opChange = "replace"
	opUpdate = "update"
	opAppend = "append to"
	opRename = "rename"
	opRemove = "remove"
	opMkdir  = "make folder"
	opSweep  = "sweep"
	opSync   = "sync"
	opLock   = "open the lock"
	opParse  = "parse"
	opDecode = "decode"
	opEdit   = "edit"
)

// changesFolder: the operation needs write permission on the folder, not on the file.
func changesFolder(op string) bool {
	switch op {
	case opCreate, opChange, opRename, opRemove, opMkdir, opSweep:
		return true
	}
	return false
}

// newError wraps err once. The os package repeats operation and path in its errors; only the bare code is kept.
func newError(op, p string, err error) *Error {
	switch e := err.(type) {
	case *Error:
		if e.Path == "" {
			return &Error{Op: op, Path: p, Hint: e.Hint, At: e.At, Err: e.Err}
		}
	case *fs.PathError:
		err = e.Err
	case *os.LinkError:
		err = e.Err
	case *os.SyscallError:
		err = e.Err
	}
	return &Error{Op: op, Path: p, Hint: hint(err), Err: err}
}

// HintManyFiles is the hint of an ErrManyFiles. It identifies a Fault made from such an error.
const HintManyFiles = "too many open files: raise ulimit -n"

func hint(err error) string {
	switch {
	case isNoSpace(err):
		return "free space or raise the quota; the old file is intact"
	case isReadOnly(err):
		return "remount the file system for writing"
	case isTooManyFiles(err):
		return HintManyFiles
	}
	return ""
}

// missing names the permission that op on p lacks.
func missing(r *Root, op, p string) string {
	e, err := dirEntry{folder: r.top, name: "."}, error(nil)
	if p != "." {
		e, err = reach(r.top, p)
	}
	if err != nil {
		return missing(r, opList, path.Dir(p))
	}
	defer e.release()
	want, where := "read permission (r--)", "file "+path.Join(r.base, p)
	st, err := e.stat()
	switch {
	case changesFolder(op), err != nil:
		want, where = "search permission (--x)", "folder "+path.Join(r.base, path.Dir(p))
		if changesFolder(op) {
			want = "write and search permission (-wx)"
		}
		st, _ = fstat(e.f)
	case st.Mode.IsDir():
		want, where = "read and search permission (r-x)", "folder "+path.Join(r.base, p)
	case op == opAppend:
		want = "read and write permission (rw-)"
	}
	return fmt.Sprintf("needs %s on %s: %s", want, where, st.owner())
}

func (s Stamp) owner() string {
	if s.UID < 0 {
		return fmt.Sprintf("mode %#o", s.Mode.Perm())
	}
	return fmt.Sprintf("mode %#o, owner uid %d gid %d, running as uid %d", s.Mode.Perm(), s.UID, s.GID, os.Geteuid())
}
