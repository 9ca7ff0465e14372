// Package keep starts agents and keeps them: it restarts what fails by rule, adopts what an earlier steward has started,
// and gives up on what fails again and again.
package keep

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// When an agent that has ended is started again.
const (
	Never     = "never"
	OnFailure = "on-failure"
	Always    = "always"
)

// Config is the [keep] table.
type Config struct {
	Place      string        // PlaceAuto, PlaceService or PlaceSession
	Backoff    time.Duration // before the second restart in a row; the first comes at once
	MaxBackoff time.Duration // the most that doubling makes of it
	Burst      int           // so many restarts …
	Within     time.Duration // … within this time, and the next failure is the last one
	Ready      time.Duration // having lived so long, an agent counts as ready: the daemon then writes its heartbeat
	Stop       time.Duration // between the request to end and the kill
}

// Ending is how one life of an agent ended.
type Ending struct {
	At     time.Time `json:"at"`
	Ready  time.Time `json:"ready,omitzero"`   // when it became ready; zero: it never was
	Code   int       `json:"code"`             // exit code; -1 when a signal ended it, when it never began, or when nobody knows
	Signal string    `json:"signal,omitempty"` // "SIGKILL"
	// Fault says why it could not be started at all; "" if it was.
	Fault string `json:"fault,omitempty"`
	// Unknown: it was not our child, and this system does not tell others how it ended.
	Unknown bool `json:"unknown,omitempty"`
	// Asked: the operator, or the configuration, wanted it to end.
	Asked bool `json:"asked,omitempty"`
}

// Well reports whether the agent left on purpose. An ending that nobody saw is a failure.
func (e Ending) Well() bool {
	return e.Asked || e.Fault == "" && !e.Unknown && e.Signal == "" && e.Code == 0
}

// String says how it ended, in words for the operator.
func (e Ending) String() string {
	switch {
	case e.Fault != "":
		return "it could not be started: " + e.Fault
	case e.Unknown:
		return "it ended, and nobody saw how (counted as a failure)"
	case e.Signal != "":
		return "it was ended by " + e.Signal
	}
	return "it exited with code " + strconv.Itoa(e.Code)
}

// History is what a restart has to know of the ones before it.
type History struct {
	Count int         `json:"count"`           // restarts in a row, since the last clean life
	Times []time.Time `json:"times,omitempty"` // those within Config.Within, oldest first
}

// Action is what follows an ending.
type Action string

// The actions.
const (
	Start Action = "start" // again, at Decision.At
	Rest  Action = "rest"  // it is over, and that is right
	Fail  Action = "fail"  // it is over, and a human has to know
)

// Reason is why.
type Reason string

// The reasons, a closed set.
const (
	ReasonAsked    Reason = "asked"    // ended because somebody wanted it
	ReasonFinished Reason = "finished" // exit 0 under on-failure
	ReasonNever    Reason = "never"    // its row says never
	ReasonFirst    Reason = "first"    // the first restart comes at once
	ReasonBackoff  Reason = "backoff"  // a later one waits
	ReasonBurst    Reason = "burst"    // too many within too short a time
)

// Decision is what follows an ending, and why.
type Decision struct {
	Action  Action
	Reason  Reason
	At      time.Time // of the start
	Why     string
	History History // to be kept for the next decision
}

// Next decides what follows an ending. It is a function of its arguments alone; name makes the jitter of one agent
// another one than its neighbour's, so that what failed together does not come back together.
func Next(name, restart string, h History, e Ending, now time.Time, cfg Config) Decision {
	if !e.Ready.IsZero() && e.At.Sub(e.Ready) > cfg.Within {
		h = History{}
	}
	switch {
	case e.Asked:
		return Decision{Action: Rest, Reason: ReasonAsked, Why: "it was asked to end"}
	case restart == Never && e.Well(), restart == OnFailure && e.Well():
		return Decision{Action: Rest, Reason: ReasonFinished, Why: e.String()}
	case restart == Never:
		return Decision{Action: Rest, Reason: ReasonNever, Why: e.String() + "; restart is never"}
	}
	recent := within(h.Times, now, cfg.Within)
	if len(recent) >= cfg.Burst {
		return Decision{Action: Fail, Reason: ReasonBurst, History: h,
			Why: fmt.Sprintf("%s, after %d restarts within %s", e, len(recent), cfg.Within)}
	}
	wait := backoff(name, h.Count, cfg)
	d := Decision{Action: Start, Reason: ReasonBackoff, At: now.Add(wait), Why: fmt.Sprintf("%s; restart %d comes in %s", e, h.Count+1, wait.Round(time.Millisecond))}
	if h.Count == 0 {
		d.Reason, d.Why = ReasonFirst, e.String()+"; the first restart comes at once"
	}
	d.History = History{Count: h.Count + 1, Times: append(recent, d.At)}
	return d
}

// within keeps the times of the span before now. Those of the future are of a clock that was set back since; they
// would count for ever.
func within(times []time.Time, now time.Time, span time.Duration) []time.Time {
	var kept []time.Time
	for _, t := range times {
		if !t.After(now) && now.Sub(t) < span {
			kept = append(kept, t)
		}
	}
	return kept
}

// backoff is the wait before the restart that follows n others: none, Backoff, twice that …, up to MaxBackoff, each
// within a fifth.
func backoff(name string, n int, cfg Config) time.Duration {
	if n == 0 {
		return 0
	}
	wait := cfg.Backoff
	for i := 1; i < n && wait < cfg.MaxBackoff; i++ {
		wait *= 2
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%d", name, n)
	wait = min(wait, cfg.MaxBackoff)
	return wait*4/5 + wait*time.Duration(hash.Sum32()%401)/1000
}
