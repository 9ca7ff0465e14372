package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/livhana/steward/status/console"
	"github.com/livhana/steward/status/terminal"
)

// Print writes v as one JSON document. A json.RawMessage keeps its key order.
func (a *App) Print(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return a.Write(terminal.Guarded(b.String()))
}

func (a *App) Write(text string) error {
	if _, err := io.WriteString(a.Out, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

func (a *App) Page() *terminal.Page {
	return &terminal.Page{Width: a.width(), Color: a.IsColored(), Now: time.Now()}
}

func (a *App) IsColored() bool {
	return a.Colors() && terminal.IsTerminal(a.Out)
}

// Colors reports whether a terminal may be sent colours.
func (a *App) Colors() bool {
	return !a.NoColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Logger writes the log to standard error.
func (a *App) Logger() *slog.Logger { return console.NewLogger(a.Err, a.Colors()) }

// width is the line width. Output to a file or another program is not truncated, so that grep finds it.
func (a *App) width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := a.Out.(*os.File)
	if !ok || !terminal.IsTerminal(f) {
		return math.MaxInt
	}
	return cmp.Or(terminal.ScreenWidth(f), terminal.UsualWidth)
}
