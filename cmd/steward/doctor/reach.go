package doctor

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/push"
	"github.com/livhana/steward/status"
)

func judgeChannels(channels []string, doc *status.Document) []Finding {
	const name = "channels"
	if len(channels) == 0 {
		return []Finding{warning(name, `set channels = ["desktop", "speech"] under [escalate]`, "none is configured: you are told nothing, incidents are only listed (steward incidents)")}
	}
	all := []Finding{working(name, "%s, in this order", strings.Join(channels, ", "))}
	if word := unreachable(doc); word != "" {
		all = append(all, warning("the daemon's word", "see below, and: steward incidents", "%s", word))
	}
	if doc == nil {
		return all
	}
	for _, c := range doc.Channels {
		if !c.OK && !c.At.IsZero() {
			all = append(all, warning("daemon's "+c.Name, "steward tries it again with each call; if it works from this terminal (see below), restart the daemon from this session",
				"its last try, at %s, failed: %s", c.At.Local().Format(time.TimeOnly), c.Problem))
		}
	}
	return all
}

// channels says which channels are configured, and how the daemon fares with them.
func (d *facts) channels(context.Context) []Finding {
	return judgeChannels(d.cfg.Escalate.Channels, d.daemon.doc)
}

// push checks the channels that lead away from this machine. It sends nothing to the operator.
func (d *facts) push(ctx context.Context) []Finding {
	cfg := d.cfg.Escalate
	var all []Finding
	if slices.Contains(cfg.Channels, escalate.ChannelNtfy) {
		all = append(all, d.ntfy(ctx)...)
	}
	if slices.Contains(cfg.Channels, escalate.ChannelCommand) {
		o := daemon.ConnectChannels(nil, escalate.Config{Channels: []string{escalate.ChannelCommand}, Command: cfg.Command}, nil)
		if err := o.List[0].Probe(ctx); err != nil {
			all = append(all, warning("command", hintOf(err, "use a program that this user may run"), "%v", err))
		} else {
			all = append(all, working("command", "%s can be run", cfg.Command[0]))
		}
	}
	return all
}

func (d *facts) ntfy(ctx context.Context) []Finding {
	const name = "ntfy"
	cfg := d.cfg.Escalate
	o := daemon.ConnectChannels(nil, escalate.Config{Channels: []string{escalate.ChannelNtfy}, Ntfy: cfg.Ntfy}, make([]byte, daemon.KeyBytes))
	if err := o.List[0].Probe(ctx); err != nil {
		return []Finding{warning(name, hintOf(err, "see [escalate.ntfy]"), "%v", err)}
	}
	all := []Finding{working(name, "%s is there", cfg.Ntfy.URL)}
	if word := daemon.NtfyOf(cfg.Ntfy, nil).Caution(); word != "" {
		all = append(all, warning(name, "use https://", "%s", word))
	}
	return all
}

// hintOf returns the hint of a push error, or otherwise.
func hintOf(err error, otherwise string) string {
	var e *push.Error
	if errors.As(err, &e) && e.Hint != "" {
		return e.Hint
	}
	return otherwise
}

// popupFacts describe the desktop as this command sees it.
type popupFacts struct {
	server string // "" : started by the first popup
	muted  bool
	err    error
	root   bool
	linux  bool
	screen bool // DISPLAY or WAYLAND_DISPLAY is set here
}

func (d *facts) desktop(ctx context.Context) []Finding {
	if !slices.Contains(d.cfg.Escalate.Channels, escalate.ChannelDesktop) {
		return nil
	}
	popups := desktop.NewPopups()
	defer popups.Close()
	f := popupFacts{root: d.uid == 0, linux: runtime.GOOS == "linux"}
	f.screen = os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	f.server, f.muted, f.err = popups.Server(ctx)
	return judgePopups(f)
}

func judgePopups(f popupFacts) []Finding {
	const name = "desktop"
	switch {
	case f.err != nil:
		return []Finding{judgeNoPopups(f)}
	case f.muted:
		return []Finding{warning(name, "turn off do not disturb", "%s takes popups and shows none: do not disturb is on", f.server)}
	case f.server == "":
		return []Finding{working(name, "a notification server is started by the first popup")}
	}
	return []Finding{working(name, "%s shows popups", f.server)}
}

func judgeNoPopups(f popupFacts) Finding {
	const name = "desktop"
	var cause *desktop.Error
	do, why := "log in on the desktop of the user who runs steward", f.err.Error()
	if errors.As(f.err, &cause) {
		why = cause.Err.Error()
		if cause.Hint != "" {
			do = cause.Hint
		}
	}
	switch {
	case f.root:
		why += "; root is asking, who has no desktop of his own"
	case errors.Is(f.err, desktop.ErrUnavailable) && f.linux && !f.screen:
		why += "; there is no DISPLAY here, as if no user were logged in on a desktop. Steward tries again with each popup"
	case errors.Is(f.err, desktop.ErrUnavailable):
		why += "; steward tries again with each popup"
	}
	return warning(name, do, "popups do not reach the desktop: %s", why)
}

func (d *facts) speech(ctx context.Context) []Finding {
	if !slices.Contains(d.cfg.Escalate.Channels, escalate.ChannelSpeech) {
		return nil
	}
	return judgeSpeech(desktop.NewSpeech().Voice(ctx))
}

func judgeSpeech(v desktop.Voice, err error) []Finding {
	const name = "speech"
	var cause *desktop.Error
	switch {
	case errors.As(err, &cause):
		return []Finding{warning(name, cause.Hint, "nothing is said aloud: %v", cause.Err)}
	case err != nil:
		return []Finding{warning(name, "steward log", "nothing is said aloud: %v", err)}
	case v.Sink == "":
		return []Finding{warning(name, "start the sound server of the user who runs steward (pactl info)", "%s, but no sound output was found", v.Tool)}
	}
	return []Finding{working(name, "%s, through %s", v.Tool, v.Sink)}
}
