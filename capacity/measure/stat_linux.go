package measure

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// parseStat reads /proc/<pid>/stat (proc_pid_stat(5)) into r, except the pid. Memory is in pages.
func parseStat(text []byte, page uint64, r *reading) error {
	// The name may contain any character, including parentheses and blanks: it ends at the last parenthesis.
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 0 || end < begin || len(text) < end+3 {
		return errors.New("read stat: no name")
	}
	r.comm = string(text[begin+1 : end])
	state := text[end+2]
	var n [25]uint64 // indexed by field number in the manual
	rest := text[end+3:]
	for field := 4; field < len(n); field++ {
		var ok bool
		if rest = bytes.TrimLeft(rest, " "); len(rest) > 0 && rest[0] == '-' && signed(field) {
			rest = rest[1:] // a negative value counts as 0
			if _, rest, ok = number(rest); ok {
				continue
			}
		} else if n[field], rest, ok = number(rest); ok {
			continue
		}
		return fmt.Errorf("read stat: field %d makes no sense", field)
	}
	const most = 1 << 38 // ticks, 87 years: a larger value is invalid and would overflow
	if max(n[14], n[15], n[16], n[17], n[22]) > most || n[24] > absurd/page {
		return errors.New("read stat: impossible numbers")
	}
	const tick = time.Second / clockTicks
	r.parent, r.session, r.start = int(n[4]), int(n[6]), n[22]
	r.spent, r.children = time.Duration(n[14]+n[15])*tick, time.Duration(n[16]+n[17])*tick
	r.rss = n[24] * page
	// A leader whose main thread has ended is reported as a zombie while its other threads run.
	r.zombie = state == 'X' || state == 'x' || state == 'Z' && n[20] <= 1
	return nil
}

// signed reports which fields may be negative: the terminal's group, times that ran backwards, priority, nice, memory.
func signed(field int) bool {
	switch field {
	case 6, 7, 8, 16, 17, 18, 19, 21, 24:
		return true
	}
	return false
}
