package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/child"
)

const (
	termTime = 2 * time.Second // from SIGTERM to SIGKILL
	maxSaid  = 1024            // bytes of a command's words in an error
)

// Command is an operator's program that delivers messages to the user.
type Command struct{ argv []string }

// NewCommand takes a program and its arguments; they are not passed through a shell. A program with a "/" in it must
// be absolute.
func NewCommand(argv []string) (*Command, error) {
	c := &Command{argv: slices.Clone(argv)}
	switch {
	case len(argv) == 0 || argv[0] == "":
		return nil, &Error{Op: "configure command", Err: errors.New("there is no program")}
	case slices.ContainsFunc(argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return nil, &Error{Op: "configure command", Err: errors.New("an argument holds a NUL")}
	case strings.ContainsRune(argv[0], '/') && !filepath.IsAbs(argv[0]):
		return nil, &Error{Op: "configure command", Err: fmt.Errorf("%q is not an absolute path", argv[0]),
			Hint: `no shell reads it: write "~" and "$HOME" out`}
	}
	return c, nil
}

// Probe reports whether the program exists and is executable. It searches at each call, because the program may be
// installed later.
func (c *Command) Probe() error {
	_, err := c.find()
	return err
}

func (c *Command) find() (string, error) {
	path, err := exec.LookPath(c.argv[0]) // also fails for a relative folder in PATH
	if err != nil {
		return "", &Error{Op: "find the command", Err: err, Hint: "use the absolute path of a program that this user may run"}
	}
	return path, nil
}

// Send runs the program with doc on its standard input; exit 0 means delivered, even if the program has not read doc.
// When ctx ends first, the program and its process group get SIGTERM, and SIGKILL after 2 s; Send returns at most 4 s
// after ctx ends. Processes left behind by a program that ended by itself are not signalled.
func (c *Command) Send(ctx context.Context, doc []byte) error {
	path, err := c.find()
	if err != nil {
		return err
	}
	op := "run " + filepath.Base(path)
	run := child.Child{Path: path, Args: c.argv[1:], Stdin: bytes.NewReader(doc), Grace: termTime,
		Env: child.Environment("SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")}
	ran, err := run.Run(ctx)
	if err == nil {
		return nil
	}
	if said := strings.ReplaceAll(clean(ran.Said, maxSaid), "\n", "; "); said != "" {
		err = fmt.Errorf("%w (%s)", err, said)
	}
	return &Error{Op: op, Err: err}
}
