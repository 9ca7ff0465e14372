//go:build !linux

package measure

// Other systems answer by calls, not by files.
type opened struct{}

const roomy = 0
