package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// Reach finds the files and the socket of this user's steward. An invalid configuration must not cut the operator off
// from the daemon, which continues with the previous configuration.
func (a *App) Reach() (platform.Paths, error) {
	if p := a.Paths(); a.ConfigFile == "" && os.Getenv("STEWARD_CONFIG") == "" {
		// The defaults set no paths, and parsing them is a large part of a short command's run time.
		if _, err := os.Lstat(p.Config); errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
	}
	_, paths, err := a.Settings()
	if err == nil || a.ConfigFile != "" {
		return paths, err
	}
	paths = a.Paths()
	if !a.warned {
		fmt.Fprintf(a.Err, "steward: the configuration cannot be used (see: steward config); the daemon is asked at %s\n", paths.Socket)
		a.warned = true
	}
	return paths, nil
}

// Ask calls the daemon.
func (a *App) Ask(ctx context.Context, doing string, call func(*status.Client) error) error {
	paths, err := a.Reach()
	if err != nil {
		return err
	}
	return Failed(call(status.NewClient(paths.Socket)), doing)
}

// Failed prefixes the error with the operation, unless the daemon's message already begins with it.
func Failed(err error, doing string) error {
	if err == nil {
		return nil
	}
	verb, _, _ := strings.Cut(doing, " ")
	if strings.HasPrefix(err.Error(), verb+" ") {
		return terminal.Report(err, "%v", err)
	}
	return terminal.Report(err, "%s: %v", doing, err)
}

// Show gets a document from the daemon and prints it: unchanged as JSON, or as text.
func Show[T any](ctx context.Context, a *App, doing, path string, render func(*terminal.Page, T)) error {
	var raw json.RawMessage
	err := a.Ask(ctx, doing, func(c *status.Client) error { return c.Get(ctx, path, &raw) })
	if err != nil {
		return err
	}
	return Present(a, raw, render)
}

func Present[T any](a *App, raw json.RawMessage, render func(*terminal.Page, T)) error {
	if a.Output == "json" {
		return a.Print(raw)
	}
	var doc T
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("read steward's answer: %w; is it another version than this command?", err)
	}
	p := a.Page()
	render(p, doc)
	return a.Write(p.String())
}

// Query appends to path one parameter for each pair with a value.
func Query(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// Tell prints a document: as JSON, or as the text that render makes of it.
func Tell[T any](a *App, doc T, render func(*terminal.Page, T)) error {
	if a.Output == "json" {
		return a.Print(doc)
	}
	p := a.Page()
	render(p, doc)
	return a.Write(p.String())
}

// Report prints one result: as a JSON document, or as a line of text, which is not cut.
func (a *App) Report(doc any, format string, args ...any) error {
	return Tell(a, doc, func(p *terminal.Page, _ any) { p.Full(format, args...) })
}
