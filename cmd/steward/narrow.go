package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// narrowing holds the list filters besides project and state: the number of rows, the agent, and the start time.
type narrowing struct {
	limit int
	agent string
	since string
	start time.Time // the parsed since; zero: no limit
	typed func(flag string) bool
}

func (n *narrowing) flags(c *cobra.Command) {
	n.typed = c.Flags().Changed
	c.Flags().IntVar(&n.limit, "limit", 0, "at most `N` rows (0: all)")
	c.Flags().StringVar(&n.agent, "agent", "", "only of the agent with this `NAME`")
	c.Flags().StringVar(&n.since, "since", "", "only what happened since `TIME`: 30m, 2h, 3d, 14:00, 2026-03-14 or 2026-03-14T09:00:00Z")
}

// read validates the flags and parses since relative to now.
func (n *narrowing) read(doing string, now time.Time) error {
	if n.limit < 0 {
		return usageError{fmt.Errorf("%s: --limit %d: use 0 or more", doing, n.limit)}
	}
	if n.agent == "" && n.typed("agent") {
		return usageError{fmt.Errorf("%s: --agent: the name is empty; without --agent the list shows all", doing)}
	}
	if n.since == "" {
		return nil
	}
	start, ok := momentOf(n.since, now)
	if !ok {
		return usageError{fmt.Errorf("%s: --since %q is not a length of time or a moment; use a value like 30m, 3d, 14:00 or 2026-03-14", doing, n.since)}
	}
	n.start = start
	return nil
}

// set reports whether the flags filter anything.
func (n narrowing) set() bool { return n.limit > 0 || n.agent != "" || n.since != "" }

// has reports whether to show a row with that agent and time.
func (n narrowing) has(agent string, at time.Time) bool {
	return (n.agent == "" || strings.EqualFold(n.agent, agent)) && !at.Before(n.start)
}

// momentOf parses a duration before now, or a time in the local zone.
func momentOf(text string, now time.Time) (time.Time, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), true
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), d >= 0
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if at.After(now) { // 23:00 typed at 01:00 means yesterday
				at = at.AddDate(0, 0, -1)
			}
			return at, true
		}
	}
	return time.Time{}, false
}
