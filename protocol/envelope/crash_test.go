package envelope

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// Killed between any two steps of an action, the next process ends in the same state: each message is there once.
func TestActsSurviveCrashes(t *testing.T) {
	type acts = func(c *Client, now time.Time) error
	accept := func(id, agent string) acts {
		return func(c *Client, now time.Time) error {
			_, err := c.Accept(t.Context(), id, protocol.Acceptance{Agent: agent, Worker: worker(1)}, now)
			return err
		}
	}
	report := func(id string, r protocol.Report) acts {
		return func(c *Client, now time.Time) error { _, err := c.Report(t.Context(), id, r, now); return err }
	}
	submit := func(o protocol.Order) acts {
		return func(c *Client, now time.Time) error { _, err := c.Submit(t.Context(), o, now); return err }
	}
	orchestrate := func(c *Client, now time.Time) error { _, err := c.Orchestrate(t.Context(), now); return err }
	dev := submit(newOrder("t", "DEVELOPER"))
	done := report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "did it"})
	part := report("t", protocol.Report{Kind: protocol.ReportFailed, Agent: "DEVELOPER", Summary: "half", Issues: []string{"line 3"}})
	pipeline := submit(protocol.Order{ID: "p", Type: "pipeline", Text: "Build it\n✓ it works", Fields: map[string]any{"pipeline": "DEVELOPER,INTEGRATIONS,TESTING"}})
	var list []protocoltest.Act
	for name, k := range map[string]struct {
		before []acts
		do     acts
		want   string // the files of messages, and the states
	}{
		"submit":      {nil, dev, "assignment-t; t pending"},
		"accept":      {[]acts{dev}, accept("t", "DEVELOPER"), "acknowledgment-t assignment-t; t running"},
		"done":        {[]acts{dev, accept("t", "DEVELOPER")}, done, "acknowledgment-t assignment-t completion-t; t done"},
		"blocked":     {[]acts{dev, accept("t", "DEVELOPER")}, report("t", protocol.Report{Kind: protocol.ReportBlocked, Agent: "DEVELOPER", Summary: "which?"}), "acknowledgment-t assignment-t blocker-t; t waiting"},
		"returned":    {[]acts{dev, accept("t", "DEVELOPER")}, report("t", protocol.Report{Kind: protocol.ReportReturned, Agent: "DEVELOPER"}), "acknowledgment-t assignment-t; t pending"},
		"cancelled":   {[]acts{dev, accept("t", "DEVELOPER")}, report("t", protocol.Report{Kind: protocol.ReportCancel}), "acknowledgment-t assignment-t cancellation-t; t failed"},
		"rejected":    {[]acts{dev, done}, report("t", protocol.Report{Kind: protocol.ReportRejected, Summary: "no"}), "assignment-t completion-t rejection-t; t pending"},
		"orchestrate": {[]acts{dev, part, pipeline}, orchestrate, "acknowledgment-p assignment-p-developer assignment-p-integrations assignment-p assignment-t completion-t rejection-t; p-developer pending p-integrations pending p running t pending"},
		"approve":     {[]acts{dev, done}, orchestrate, "assignment-t completion-t; t done"},
	} {
		options := testOptions
		options.Validate = name == "orchestrate" || name == "approve"
		do := func(dir string, now time.Time, act acts) error {
			c := Connect(dir, options)
			defer c.Close()
			return act(c, now)
		}
		list = append(list, protocoltest.Act{Name: name,
			Lay: func(t testing.TB, dir string, now time.Time) {
				protocoltest.Write(t, dir, file(messagesDir+"/.keep", ""), now)
				for _, act := range k.before {
					if err := do(dir, now, act); err != nil {
						t.Fatal(err)
					}
				}
			},
			Do: func(dir string, now time.Time) error { return do(dir, now, k.do) },
			After: func(t testing.TB, dir string, now time.Time, killed bool) {
				err := error(nil)
				if killed {
					err = do(dir, now.Add(time.Second), k.do)
				}
				for _, fine := range []error{protocol.ErrEnded, jsonfile.ErrExist, protocol.ErrUnsupported} {
					if errors.Is(err, fine) {
						err = nil
					}
				}
				if got := describe(t, dir, options); err != nil && !strings.Contains(err.Error(), "waits for its blocker") || got != k.want {
					t.Errorf("%v\n%s\nwant\n%s", err, got, k.want)
				}
			}})
	}
	protocoltest.KillActs(t, time.Now, list)
}

// describe lists the messages and the states of their tasks.
func describe(t testing.TB, dir string, o Options) string {
	names, _ := filepath.Glob(filepath.Join(dir, messagesDir, "*.json"))
	var files, states []string
	for _, name := range names {
		files = append(files, strings.TrimSuffix(filepath.Base(name), messageExt))
	}
	c := Connect(dir, o)
	defer c.Close()
	for _, file := range files {
		if id, ok := strings.CutPrefix(file, "assignment-"); ok {
			a, err := c.Show(t.Context(), id, time.Now())
			if err != nil {
				t.Error(err)
			}
			states = append(states, fmt.Sprint(id, " ", a.State))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, messagesDir)); err != nil {
		t.Error(err)
	}
	return strings.Join(files, " ") + "; " + strings.Join(states, " ")
}
