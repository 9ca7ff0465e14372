// Package desktop reaches the human at this machine: one popup, one voice, each with a deadline and an honest proof.
package desktop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The results of a Proof, weakest last.
const (
	Shown  = "shown"  // a popup: the server named the popup that it opened
	Spoken = "spoken" // a voice: a player ended well and took its time over the sound
	Sent   = "sent"   // accepted, and nothing says that it was seen or heard: the next channel is due
)

// Proof says how far a message is known to have come. "Sent" is not "reached".
type Proof struct {
	Result string // Shown, Spoken or Sent
	Detail string // the evidence, in words for the operator
	ID     string // the popup as its server knows it ("owner/number"); empty for a voice and where the system gives none

	Actions bool // the popup has buttons, and a press of one will be an Event
}

// ErrUnavailable is wrapped by every error that means: nothing here could show or speak (no bus, no server, no voice).
// Any other error means: it was tried and did not work.
var ErrUnavailable = errors.New("not available here")

// Error is what every exported method of this package returns.
type Error struct {
	Op   string // what was being done, such as "show popup"
	Hint string // what the operator can do about it; empty when there is nothing
	Err  error
}

// Error is one line, without the hint.
func (e *Error) Error() string {
	return e.Op + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap gives the cause, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// unavailable makes the cause of an Error that wraps ErrUnavailable.
func unavailable(format string, args ...any) error {
	return absent(fmt.Sprintf(format, args...))
}

// absent is an ErrUnavailable in its own words.
type absent string

func (a absent) Error() string { return string(a) }
func (a absent) Unwrap() error { return ErrUnavailable }

// find gives the absolute path of a tool. It is asked at each call, because tools are installed later; a hit in
// a relative PATH entry counts as none, because it depends on the folder we happen to stand in.
func find(tool string) (string, bool) {
	path, err := exec.LookPath(tool)
	return path, err == nil
}

// environment passes on only what a desktop tool needs to find its server, its settings and its language. Secrets
// of the agents (tokens, keys) often sit in the rest.
func environment(extra ...string) []string {
	names := []string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TMPDIR",
		"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
		"PULSE_SERVER", "PULSE_COOKIE", "PULSE_SINK", "PIPEWIRE_REMOTE", "PIPEWIRE_RUNTIME_DIR", "ALSA_CONFIG_PATH", "SPEECHD_ADDRESS",
		"SystemRoot", "SystemDrive", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "PSModulePath",
	}
	env := make([]string, 0, len(names)+len(extra))
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, extra...)
}
