package rules

import (
	"regexp"
	"sync"
)

// lazily compiles a pattern on first use: short steward commands need no patterns.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
