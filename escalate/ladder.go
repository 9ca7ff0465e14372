package escalate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Ladder sets when each channel is called for an open incident, counted from the first notice that reached the
// operator. Reminders start after the last rung and use every channel in the ladder.
type Ladder struct {
	Desktop []time.Duration `toml:"desktop"`
	Speech  []time.Duration `toml:"speech"`
	Ntfy    []time.Duration `toml:"ntfy"`
	Command []time.Duration `toml:"command"`
	// Every is the time between reminders (0: no reminders). After that many Times (0: unlimited), the interval
	// becomes Then (0: no more reminders).
	Every time.Duration `toml:"every"`
	Times int           `toml:"times"`
	Then  time.Duration `toml:"then"`
}

// called lists the severities that have a ladder; incidents of lower severity are only listed.
var called = []protocol.Severity{protocol.Critical, protocol.High, protocol.Medium}

// Limits on a ladder; larger values are taken as typing errors.
const (
	maxRungs = 32
	maxAfter = 7 * 24 * time.Hour
	minEvery = 10 * time.Second
	maxTimes = 1000
)

// of returns the times at which a channel is called.
func (l Ladder) of(channel string) []time.Duration {
	switch channel {
	case ChannelDesktop:
		return l.Desktop
	case ChannelSpeech:
		return l.Speech
	case ChannelNtfy:
		return l.Ntfy
	case ChannelCommand:
		return l.Command
	}
	return nil
}

// moments lists the distinct times at which any of the channels is called, in ascending order.
func (l Ladder) moments(channels []string) []time.Duration {
	var all []time.Duration
	for _, name := range channels {
		all = append(all, l.of(name)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// between lists the channels that are called later than after and no later than until. If until is past the last
// rung, that includes a reminder and therefore every channel of the ladder.
func (l Ladder) between(channels []string, after, until time.Duration) []string {
	moments := l.moments(channels)
	reminds := len(moments) > 0 && until > moments[len(moments)-1]
	return slices.DeleteFunc(slices.Clone(channels), func(name string) bool {
		at := l.of(name)
		if reminds && len(at) > 0 {
			return false
		}
		return !slices.ContainsFunc(at, func(d time.Duration) bool { return d > after && d <= until })
	})
}

// next returns the first time later than after at which any of the channels is called.
func (l Ladder) next(channels []string, after time.Duration) (time.Duration, bool) {
	moments := l.moments(channels)
	if len(moments) == 0 {
		return 0, false
	}
	for _, d := range moments {
		if d > after {
			return d, true
		}
	}
	return l.reminder(moments[len(moments)-1], after)
}

// last returns the latest such time that is no later than until, or -1.
func (l Ladder) last(channels []string, until time.Duration) time.Duration {
	moments := l.moments(channels)
	n, found := slices.BinarySearch(moments, until)
	switch {
	case found:
		return until
	case n == 0:
		return -1
	case n < len(moments) || l.Every <= 0:
		return moments[n-1]
	}
	top := moments[n-1]
	reminders := (until - top) / l.Every
	if l.Times == 0 || reminders < time.Duration(l.Times) {
		return top + reminders*l.Every
	}
	top += time.Duration(l.Times) * l.Every
	if l.Then > 0 {
		top += (until - top) / l.Then * l.Then
	}
	return top
}

// reminder returns the first reminder later than after; top is the time of the last rung.
func (l Ladder) reminder(top, after time.Duration) (time.Duration, bool) {
	if l.Every <= 0 {
		return 0, false
	}
	n := (after-top)/l.Every + 1
	if l.Times == 0 || n <= time.Duration(l.Times) {
		return top + n*l.Every, true
	}
	if l.Then <= 0 {
		return 0, false
	}
	top += time.Duration(l.Times) * l.Every
	return top + ((after-top)/l.Then+1)*l.Then, true
}

func (l Ladder) validate(name string) error {
	for _, channel := range channelNames {
		if len(l.of(channel)) > maxRungs {
			return fmt.Errorf("ladder.%s.%s: more than %d times", name, channel, maxRungs)
		}
		for _, d := range l.of(channel) {
			if d < 0 || d > maxAfter {
				return fmt.Errorf("ladder.%s.%s: %s must be between 0s and %s", name, channel, d, maxAfter)
			}
		}
	}
	for _, p := range []struct {
		key   string
		value time.Duration
	}{{"every", l.Every}, {"then", l.Then}} {
		if p.value != 0 && (p.value < minEvery || p.value > maxAfter) {
			return fmt.Errorf("ladder.%s.%s: %s must be from %s to %s, or 0s for never", name, p.key, p.value, minEvery, maxAfter)
		}
	}
	switch {
	case l.Times < 0 || l.Times > maxTimes:
		return fmt.Errorf("ladder.%s.times: %d must be from 0 to %d", name, l.Times, maxTimes)
	case l.Then > 0 && l.Every == 0:
		return fmt.Errorf("ladder.%s.then: needs every", name)
	}
	return nil
}

// validateLadders reports the first invalid setting of any ladder.
func validateLadders(all map[string]Ladder) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(called, protocol.Severity(name)) {
			errs = append(errs, fmt.Errorf("ladder.%s: there is no such ladder; there are %q, and what is less severe is only listed", name, called))
		}
		errs = append(errs, all[name].validate(name))
	}
	return errors.Join(errs...)
}

// rungGap is the minimum time between two calls for one incident, whatever the ladder says. After the machine has
// slept, all rungs that became due meanwhile are one call.
const rungGap = 20 * time.Second

// climb requests the next notice of an open incident when its ladder is due. A zero due means that no further notice
// follows.
func climb(i Incident, l Ladder, channels []string, now time.Time) (next Incident, due time.Time) {
	if i.State != rules.Raised || i.Notice == 0 || i.Notice > i.Notified || i.Called.IsZero() {
		return i, time.Time{}
	}
	if i.Silent {
		channels = slices.DeleteFunc(slices.Clone(channels), func(name string) bool { return name == ChannelSpeech })
	}
	after, ok := l.next(channels, i.Climbed)
	if !ok {
		return i, time.Time{}
	}
	due = i.Called.Add(after)
	if soonest := i.latest().Add(rungGap); due.Before(soonest) {
		due = soonest
	}
	if now.Before(due) {
		return i, due
	}
	until := l.last(channels, max(after, now.Sub(i.Called)))
	i.Calls = l.between(channels, i.Climbed, until)
	i.Climbed = until
	i.Rev++
	i.Notice = i.Rev
	return i, due
}

// catchUp extends a postponed notice to all channels that became due meanwhile, so that they are one call.
func catchUp(i Incident, l Ladder, channels []string, now time.Time) (Incident, bool) {
	if i.job() != jobTell || i.Called.IsZero() {
		return i, false
	}
	until := l.last(channels, now.Sub(i.Called))
	if until <= i.Climbed {
		return i, false
	}
	for _, name := range l.between(channels, i.Climbed, until) {
		if !slices.Contains(i.Calls, name) {
			i.Calls = append(slices.Clone(i.Calls), name)
		}
	}
	i.Climbed = until
	return i, true
}

// latest is when the operator was last told, or a delivery was last attempted or postponed.
func (i Incident) latest() time.Time {
	if n := len(i.Deliveries); n > 0 && i.Deliveries[n-1].At.After(i.Called) {
		return i.Deliveries[n-1].At
	}
	return i.Called
}
