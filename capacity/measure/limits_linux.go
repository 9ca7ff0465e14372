package measure

import "bytes"

// parseLimits finds the soft limit of open files in /proc/<pid>/limits.
func parseLimits(text []byte) (uint64, bool) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if rest, ok := bytes.CutPrefix(line, []byte("Max open files ")); ok {
			n, _, ok := number(rest)
			return n, ok && n > 0
		}
	}
	return 0, false
}
