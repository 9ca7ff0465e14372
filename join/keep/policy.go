// Package keep starts agents and keeps them running. It restarts failed agents by rule, adopts the agents that an
// earlier steward has started, and gives up on an agent that fails repeatedly.
package keep

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// Restart policies of an agent that has ended.
const (
	Never     = "never"
	OnFailure = "on-failure"
	Always    = "always"
	// WhenDue starts the agent whenever work waits for it (Deps.Admit), and lets it end when none is left.
	WhenDue = "when-due"
)

// Config is the [keep] table.
type Config struct {
	Place      string        // PlaceAuto, PlaceService or PlaceSession
	Backoff    time.Duration // before the second consecutive restart; the first is immediate
	MaxBackoff time.Duration // the upper bound of the doubled backoff
	Burst      int           // the most restarts …
	Within     time.Duration // … within this time; the next failure is final
	Ready      time.Duration // after this uptime the agent counts as ready: the daemon then writes its heartbeat
	Stop       time.Duration // between SIGTERM and SIGKILL
}

// Ending is how one life of an agent ended.
type Ending struct {
	At     time.Time `json:"at"`
	Ready  time.Time `json:"ready,omitzero"`   // when it became ready; zero: never
	Code   int       `json:"code"`             // exit code; -1 when a signal ended it, when it was not started, or when unknown
	Signal string    `json:"signal,omitempty"` // "SIGKILL"
	// Fault says why it could not be started; "" if it was.
	Fault string `json:"fault,omitempty"`
	// Unknown: it was not a child of this process, and this system does not report the exit status to other processes.
	Unknown bool `json:"unknown,omitempty"`
	// Asked: the operator or the configuration requested the end.
	Asked bool `json:"asked,omitempty"`
	// Left is the work that it left unfinished, which shows that it failed whatever its exit code says; "" if none is known.
	Left string `json:"left,omitempty"`
}

// Well reports whether the agent ended on purpose. An end with an unknown status is a failure.
func (e Ending) Well() bool {
	return e.Asked || e.Fault == "" && !e.Unknown && e.Signal == "" && e.Code == 0 && e.Left == ""
}

// String describes the end for the operator.
func (e Ending) String() string {
	switch {
	case e.Fault != "":
		return "it could not be started: " + e.Fault
	case e.Unknown:
		return "it ended, and how is not known (counted as a failure)"
	case e.Signal != "":
		return "it was ended by " + e.Signal
	case e.Left != "":
		return "it exited with code " + strconv.Itoa(e.Code) + ", and " + e.Left
	}
	return "it exited with code " + strconv.Itoa(e.Code)
}

// History is the record of earlier restarts that the next decision needs.
type History struct {
	Count int         `json:"count"`           // consecutive restarts since the last stable life
	Times []time.Time `json:"times,omitempty"` // those within Config.Within, oldest first
}

// Action is what follows an ending.
type Action string

// The actions.
const (
	Start Action = "start" // restart at Decision.At
	Rest  Action = "rest"  // no restart: the agent ended as intended
	Fail  Action = "fail"  // no restart: alert the operator
)

// Decision is the action after an ending, and why.
type Decision struct {
	Action  Action
	At      time.Time // of the start
	Why     string
	History History // for the next decision
}

// Next decides what follows an ending. It is a pure function. name varies the jitter between agents, so that agents
// that failed together do not restart together.
func Next(name, restart string, h History, e Ending, now time.Time, cfg Config) Decision {
	if !e.Ready.IsZero() && e.At.Sub(e.Ready) > cfg.Within {
		h = History{}
	}
	switch {
	case restart == WhenDue && e.Well():
		return Decision{Action: Start, At: now, Why: e.String()}
	case e.Asked:
		return Decision{Action: Rest, Why: "it was asked to end"}
	case restart != Always && e.Well():
		return Decision{Action: Rest, Why: e.String()}
	case restart == Never:
		return Decision{Action: Rest, Why: e.String() + "; restart is never"}
	}
	recent := within(h.Times, now, cfg.Within)
	if len(recent) >= cfg.Burst {
		return Decision{Action: Fail, History: h,
			Why: fmt.Sprintf("%s, after %d restarts within %s", e, len(recent), cfg.Within)}
	}
	wait := backoff(name, h.Count, cfg)
	d := Decision{Action: Start, At: now.Add(wait), Why: fmt.Sprintf("%s; restart %d comes in %s", e, h.Count+1, wait.Round(time.Millisecond))}
	if h.Count == 0 {
		d.Why = e.String() + "; the first restart comes at once"
	}
	d.History = History{Count: h.Count + 1, Times: append(recent, d.At)}
	return d
}

// within keeps the times in the span before now. It drops future times: they come from a clock that was set back since,
// and would count forever.
func within(times []time.Time, now time.Time, span time.Duration) []time.Time {
	var kept []time.Time
	for _, t := range times {
		if !t.After(now) && now.Sub(t) < span {
			kept = append(kept, t)
		}
	}
	return kept
}

// backoff is the wait before the restart that follows n others: none, Backoff, twice that, and so on up to MaxBackoff,
// each with a jitter of 20 % up or down.
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
