package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/push"
	"github.com/livhana/steward/status"
)

// pollTrial is the interval at which the daemon is polled for the results of its test.
const pollTrial = 250 * time.Millisecond

// tryReach sends a real test through every channel. If a daemon runs, the daemon sends it, because it must be able to
// reach the operator.
func (d *facts) tryReach(ctx context.Context) []Finding {
	const area = "a real test"
	names := d.cfg.Escalate.Channels
	if d.daemon.doc != nil {
		names = nil
		for _, c := range d.daemon.doc.Channels {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil // reported under "channels"
	}
	d.o.Announce(fmt.Sprintf("sending a test by %s; press its button within %.0f s", strings.Join(names, ", "), daemon.TestTime.Seconds()))
	try := d.tryOwn
	if d.daemon.doc != nil {
		try = d.tryDaemon
	}
	trials, err := try(ctx, names)
	all := judgeTrials(trials)
	if err != nil {
		all = append(all, broken("test", "steward log", "%v", err))
	}
	for n := range all {
		all[n].Area = area
	}
	return all
}

// tryDaemon has the daemon send its test, and waits for the results.
func (d *facts) tryDaemon(ctx context.Context, _ []string) ([]status.Trial, error) {
	ctx, cancel := context.WithTimeout(ctx, daemon.TestTime+daemon.SpeechDeadline)
	defer cancel()
	client := status.NewClient(d.paths.Socket)
	var doc status.Trials
	if err := client.Post(ctx, "/v1/reach", nil, &doc); err != nil {
		return nil, err
	}
	begin := time.Now()
	tick := time.NewTicker(pollTrial)
	defer tick.Stop()
	for {
		sent := !slices.ContainsFunc(doc.Trials, func(t status.Trial) bool { return t.Result == "" })
		over := !slices.ContainsFunc(doc.Trials, func(t status.Trial) bool { return !t.Over() })
		if over || sent && time.Since(begin) > daemon.TestTime {
			return doc.Trials, nil
		}
		select {
		case <-ctx.Done():
			return doc.Trials, ctx.Err()
		case <-tick.C:
		}
		if err := client.Get(ctx, "/v1/reach", &doc); err != nil {
			return doc.Trials, err
		}
	}
}

// tryOwn sends the test from this process, because no daemon runs.
func (d *facts) tryOwn(ctx context.Context, _ []string) ([]status.Trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	popups := desktop.NewPopups()
	defer popups.Close()
	key := make([]byte, daemon.KeyBytes)
	rand.Read(key)
	o := daemon.ConnectChannels(popups, d.cfg.Escalate, key)
	t := o.Begin(ctx, d.cfg.Human.Name)
	go func() {
		for e := range popups.Events() {
			if e.Kind == desktop.Pressed {
				t.Pressed(escalate.ChannelDesktop)
			}
		}
	}()
	if o.Ntfy != nil {
		go o.Ntfy.Hear(ctx, func(push.Press) { t.Pressed(escalate.ChannelNtfy) })
	}
	select {
	case <-t.Done:
		return t.Entries(), nil
	case <-ctx.Done():
		return t.Entries(), ctx.Err()
	}
}

func judgeTrials(trials []status.Trial) []Finding {
	var all []Finding
	for _, t := range trials {
		switch {
		case !t.OK && t.Result == "":
			all = append(all, broken(t.Channel, "steward log", "the test is still under way"))
		case !t.OK:
			all = append(all, broken(t.Channel, "see above, under reaching you", "the test did not reach you: %s", t.Error))
		case t.Asks && !t.Pressed:
			all = append(all, warning(t.Channel, "if you saw nothing, look at the notification settings of this desktop or phone",
				"%s, but the button was not pressed within %.0f s", t.Result, daemon.TestTime.Seconds()))
		case t.Asks:
			all = append(all, working(t.Channel, "%s, and your press came back", t.Result))
		default:
			all = append(all, working(t.Channel, "%s", t.Result))
		}
	}
	return all
}
