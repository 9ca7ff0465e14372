//go:build linux

package desktop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBanner(t *testing.T) {
	const stays = `log; printf '%s|' "$@" >$DIR/args; /bin/cat >$DIR/text; exec /bin/sleep 1000`
	m := Message{Key: "k\n-1", Title: "-e quit", Text: "it's \"so\""}
	for _, c := range []struct {
		name    string
		scripts map[string]string
		result  string
		order   string
		args    string
		text    string
	}{
		{"alerter", map[string]string{"alerter": stays, "osascript": "log"}, Shown, "alerter", "--group=steward.k -1|--title=-e quit|", m.Text},
		{"alerter ends at once", map[string]string{"alerter": "log; echo @CLOSED"}, Sent, "alerter", "", ""},
		{"alerter fails", map[string]string{"alerter": broken, "osascript": "log; /bin/cat >$DIR/text"}, Sent, "alerter osascript", "", notifyScript},
		{"osascript", map[string]string{"osascript": `log; printf '%s|' "$@" >$DIR/args`}, Sent, "osascript", "-|-e quit|" + m.Text + "|", ""},
		{"osascript fails", map[string]string{"osascript": broken}, "", "osascript", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", toolbox(t, dir, c.scripts))
			b := &banner{settle: watchdog}
			if c.result == Shown {
				b.settle = time.Second
			}
			proof, err := b.show(t.Context(), m)
			if proof.Result != c.result || (err == nil) != (c.result != "") || errors.Is(err, ErrUnavailable) {
				t.Errorf("%+v, %v", proof, err)
			}
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			text, _ := os.ReadFile(filepath.Join(dir, "text"))
			if logged(dir) != c.order || string(args) != c.args || string(text) != c.text {
				t.Errorf("order %q, arguments %q, text %q", logged(dir), args, text)
			}
			if err := b.probe(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBannerWithdraw(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", toolbox(t, dir, map[string]string{"alerter": `echo "$@" >$DIR/args`}))
	b := &banner{settle: time.Second}
	if err := b.withdraw(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	if args, _ := os.ReadFile(filepath.Join(dir, "args")); strings.TrimSpace(string(args)) != "--remove=steward.k" {
		t.Errorf("%s", args)
	}
	t.Setenv("PATH", t.TempDir())
	_, err := b.show(context.Background(), Message{Key: "k", Title: "t"})
	for _, err := range []error{err, b.withdraw(t.Context(), "k"), b.probe(t.Context())} {
		if !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
}
