// Package run runs one command as a process tree and makes sure that the whole tree ends: whatever the command leaves
// behind, ignores or floods, and whichever process dies meanwhile. A separate process, the shim, is between the caller
// and the command.
package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Spec is one command and its limits.
type Spec struct {
	Argv  []string      // a path (relative to Dir unless absolute) or a name to find in Env's PATH; Argv is never a shell line
	Dir   string        // working folder, absolute
	Env   []string      // the complete environment; STEWARD_RUN=Mark is added
	Stdin []byte        // the command's input; nil: /dev/null
	Limit time.Duration // how long the command may take; 0: no limit
	Grace time.Duration // between SIGTERM and SIGKILL
	Keep  int           // bytes kept of each of stdout and stderr, half of it the head, half the tail; the rest is only counted
	Log   string        // absolute path of a file that gets both streams as they arrive, at most LogLimit bytes; "" for none
	Onto  bool          // append to Log, which other programs may write to at the same time, instead of truncating it first
	Mark  string        // unique to this run: it identifies the tree's processes even when the shim is dead
	Write []string      // absolute paths; the command may write only below them (platform/confine); nil: not confined
}

// LogLimit bounds what a run writes to the file Spec.Log, in bytes. The run truncates the file first, unless Spec.Onto.
const LogLimit = 10 << 20

// Reasons why a command could not be started.
const (
	NotFound   = "not_found"  // the program, its interpreter, or the working folder
	NotFolder  = "not_folder" // the working folder is something else
	Permission = "permission" // no right to execute it
	Format     = "format"     // not a program of this machine, a script without a #! line, or a folder
	Resources  = "resources"  // no processes, memory or descriptors left
	Other      = "other"
)

// Ended is how a run ended.
type Ended struct {
	Start, End     time.Time     // from before the command's start until nothing of its tree was left
	Code           int           // the exit code; -1 when ended by a signal or not started
	Signal         string        // "SIGKILL" if a signal ended the command itself, else ""
	TimedOut       bool          // Limit passed: the whole tree was stopped
	Stopped        bool          // asked to stop: the whole tree was stopped
	Fault          string        // "" if the command was started, else one of the constants above
	Problem        string        // Fault in words
	Stdout, Stderr Output        //
	LogProblem     string        // why Log is not complete; "" when it is, or when there is no log
	User, System   time.Duration // processor time of all processes of the tree that have ended
	MaxRSS         int64         // bytes of memory of the largest single process; on Linux at least the few MiB of the shim
	Survivors      int           // processes that outlived the command and were ended; 0 when the whole tree was stopped
	Unended        int           // processes that could not be ended
	Confined       bool          // writing was confined
}

// Output is the kept part of a stream.
type Output struct {
	Text  string // valid UTF-8 without NUL: other bytes are replaced by U+FFFD. A line marks an omission
	Bytes int64  // all bytes of the stream
	Cut   bool   // Text is incomplete
}

// check refuses a Spec without what its end depends on.
func (s *Spec) check() error {
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("no command")
	case s.Mark == "" || strings.Contains(s.Mark, "\x00"):
		return fmt.Errorf("%q cannot mark a run", s.Mark)
	case !filepath.IsAbs(s.Dir):
		return fmt.Errorf("%q is not an absolute path", s.Dir)
	}
	return nil
}
