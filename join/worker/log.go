package worker

import (
	"fmt"
	"strings"
)

// log prints the worker's messages.
type log struct {
	print func(text string)
	told  map[string]string // the last message about each matter
}

func (l log) say(format string, args ...any) {
	l.print(line(fmt.Sprintf(format, args...), longestMessage))
}

// Largest precedes, in a gate's reason, the names of the largest consumers. They change all the time, so two reasons
// are the same when they agree up to here.
const Largest = "; largest: "

var digits = lazily(`[0-9]+(?:\.[0-9]+)?`)

// once prints a message about a matter, unless it repeats the last message about it; differences in numbers do not
// count.
func (l log) once(matter, text string) {
	same, _, _ := strings.Cut(text, Largest)
	key := digits().ReplaceAllString(same, "#")
	if l.told[matter] == key {
		return
	}
	if len(l.told) > 1000 {
		clear(l.told) // drops tasks that other workers have taken meanwhile
	}
	l.told[matter] = key
	l.say("%s", text)
}

// settled forgets the last message about a matter.
func (l log) settled(matter string) { delete(l.told, matter) }
