package cli

import (
	"context"
	"strings"
	"time"

	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// completionTime bounds how long a shell waits for names.
const completionTime = 500 * time.Millisecond

// CompleteNames completes a single argument with the daemon's names of the given kinds ("agent", "task", "lock", "incident", "project").
func CompleteNames(a *App, kinds ...string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		_, paths, _ := a.Settings()
		var doc status.Document
		if status.NewClient(paths.Socket).Get(ctx, "/v1/status", &doc) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, kind := range kinds {
			names = append(names, namesOf(doc, kind)...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteEach is completeNames for every argument.
func CompleteEach(a *App, kinds ...string) cobra.CompletionFunc {
	first := CompleteNames(a, kinds...)
	return func(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return first(c, nil, begun)
	}
}

func namesOf(doc status.Document, kind string) []cobra.Completion {
	var names []cobra.Completion
	offer := func(name, about string) {
		if name == terminal.Clean(name) && !strings.Contains(name, " ") { // the shell's completion protocol separates by lines and tabs
			names = append(names, cobra.CompletionWithDesc(name, terminal.OneWord(about)))
		}
	}
	switch kind {
	case "agent":
		for _, a := range doc.Agents {
			offer(a.Name, "agent, "+string(a.State))
		}
	case "task":
		for _, t := range doc.Tasks {
			offer(t.ID, "task, "+string(t.State))
		}
	case "lock":
		for _, l := range doc.Locks {
			offer(l.Resource, "lock, "+string(l.State))
		}
	case "incident":
		for _, i := range doc.Incidents {
			offer(i.Key, i.Summary)
		}
	case "project":
		for _, r := range doc.Projects {
			offer(r.Name, r.Path)
		}
	}
	return names
}
