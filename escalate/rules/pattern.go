package rules

import (
	"regexp"
	"sync"
)

// lazily compiles a pattern when it is first needed: a short command of steward needs none.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
