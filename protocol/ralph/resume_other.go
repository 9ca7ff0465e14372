//go:build !unix

package ralph

import (
	"errors"
	"os"
	"os/exec"

	"github.com/livhana/steward/protocol/jsonfile"
)

var errNoSession = errors.New("resume commands are not started on this system; start it by hand")

func ownSession(*exec.Cmd) {}

func openSeen(string, jsonfile.Stamp) (*os.File, error) { return nil, errNoSession }

func lockLog(*os.File) error { return errNoSession }
