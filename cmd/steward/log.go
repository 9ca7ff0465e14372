package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// deeds are the words for what was done, by verb; attempts are those for what failed.
var deeds = map[protocol.Verb]string{
	protocol.VerbHold: "held it", protocol.VerbRelease: "released it", protocol.VerbRenew: "held it for longer",
	protocol.VerbRetry: "issued it again", protocol.VerbBury: "wrote a dead letter", protocol.VerbConclude: "wrote the result that its agent could not write",
	protocol.VerbCancel: "cancelled it", protocol.VerbFile: "put a late result on record", protocol.VerbRecord: "kept its result on record", protocol.VerbMark: "marked it in the registry",
	protocol.VerbLog: "entered it in the shared log", protocol.VerbUnlock: "released the lock", protocol.VerbRequeue: "put it back in its place", protocol.VerbReap: "ended what was left of it", protocol.VerbPause: "held the agent", protocol.VerbResume: "let the agent go on", "restart": "restarted it",
}

var attempts = map[protocol.Verb]string{
	protocol.VerbHold: "hold it", protocol.VerbRelease: "release it", protocol.VerbRenew: "hold it for longer",
	protocol.VerbRetry: "issue it again", protocol.VerbBury: "write a dead letter", protocol.VerbConclude: "write the result that its agent could not write",
	protocol.VerbCancel: "cancel it", protocol.VerbFile: "put a late result on record", protocol.VerbRecord: "keep its result on record", protocol.VerbMark: "mark it in the registry",
	protocol.VerbLog: "enter it in the shared log", protocol.VerbUnlock: "release the lock", protocol.VerbRequeue: "put it back in its place", protocol.VerbReap: "end what was left of it", protocol.VerbPause: "hold the agent", protocol.VerbResume: "let the agent go on", "restart": "restart it",
}

// told is a journal entry in words: a line, and further lines of detail. Only a delivery with proof has told the human.
func told(e status.Entry, now time.Time) (what string, details []string) {
	headline, rest, _ := strings.Cut(strings.TrimSpace(terminal.LocalTimes(e.Text, now)), "\n")
	e.Text = headline
	for line := range strings.Lines(rest) {
		if line = terminal.Clean(line); line != "" {
			details = append(details, line)
		}
	}
	return happened(e), details
}

func happened(e status.Entry) string {
	what := e.Verb
	switch {
	case e.Kind == "verdict":
		what = "became " + e.State
	case e.Kind == "alert":
		what = "raised an alert"
	case e.Kind == "resolve":
		what = "closed the incident"
	case e.Kind == "delivery" && e.Error != "":
		return terminal.Clean("could not tell the human through " + e.Verb + " (" + e.Error + ")")
	case e.Kind == "delivery":
		what = "told the human through " + e.Verb
	case e.Kind == "change" && e.Error != "" && attempts[protocol.Verb(e.Verb)] != "":
		return terminal.Clean("tried to " + attempts[protocol.Verb(e.Verb)] + asWhat(e) + ", but " + obstacle(e) + reasonAfter(e.Text))
	case e.Kind == "change" && deeds[protocol.Verb(e.Verb)] != "":
		what = deeds[protocol.Verb(e.Verb)]
	case what == "":
		what = e.Kind
	}
	what += asWhat(e)
	if e.Error != "" {
		what += ", but it failed: " + e.Error
	}
	return terminal.Clean(what + reasonAfter(e.Text))
}

func asWhat(e status.Entry) string {
	if c := e.Change; c != nil && (c.Status != "" || c.Event != "") {
		return " as " + c.Status + c.Event
	}
	return ""
}

// obstacle is why a change was not made.
func obstacle(e status.Entry) string {
	if strings.Contains(e.Error, protocol.AgentFirst) {
		return protocol.AgentFirst
	}
	return "it failed: " + e.Error
}

func reasonAfter(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func (a *app) logCommand() *cobra.Command {
	var follow bool
	var n int
	c := &cobra.Command{
		Use:   "log [SUBJECT]",
		Short: "Show the journal: what was seen, decided and done, and why",
		Long: "log shows what the journal has on everything, or on one agent, task, lock, call for help, incident or project: also on one\n" +
			"that has left the files. SUBJECT is as for explain; the beginning of a task's id (four characters) or of an incident's key\n" +
			"will do. A name that neither the files nor the journal know ends with 4. Without a daemon it reads the journal on disk.",
		Example: "  steward log -n 20\n  steward log --follow\n  steward log codex-cursor -o json",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.completeNames("agent", "task", "lock", "incident"),
		RunE: func(c *cobra.Command, args []string) error {
			if n < 0 {
				return usageError{fmt.Errorf("log: -n %d: use 0 or more", n)}
			}
			path := query("/v1/log", "n", strconv.Itoa(n), "subject", strings.Join(args, ""))
			if follow {
				return a.follow(c.Context(), path)
			}
			return showJournal(c.Context(), a, "read the log", path, renderLog)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted; json prints one entry on each line")
	c.Flags().IntVarP(&n, "lines", "n", 100, "show the last `N` entries first")
	return c
}

// journal is the document of GET /v1/log.
type journal struct {
	Log []status.Entry `json:"log"`
}

func renderLog(p *page, doc journal) {
	for _, e := range doc.Log {
		p.entry(e)
	}
}

func (p *page) entry(e status.Entry) {
	about := e.Subject
	if e.Incident != "" {
		about += " [" + e.Incident[:min(len(e.Incident), 8)] + "]"
	}
	what, details := told(e, p.Now)
	p.Line("%s  %s  %s", p.Clock(e.At), terminal.Clean(about), what)
	for _, line := range details {
		p.Line("            %s", line)
	}
}

// follow prints entries as they are written, until the command is interrupted.
func (a *app) follow(ctx context.Context, path string) error {
	err := a.ask(ctx, "follow the log", func(c *status.Client) error {
		return c.Stream(ctx, path, func(data []byte) error {
			if a.output == "json" {
				return a.write(terminal.Guarded(string(data)) + "\n")
			}
			var e status.Entry
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("read an entry: %w", err)
			}
			p := a.page()
			p.entry(e)
			return a.write(p.String())
		})
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
