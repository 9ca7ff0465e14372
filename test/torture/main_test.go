// Package torture makes things fail around the real program, or many things happen at once, and looks for what was lost.
// The short forms run with all tests, the full ones in bench/long.sh.
package torture

import (
	"testing"

	"github.com/livhana/steward/test/rig"
)

func TestMain(m *testing.M) {
	rig.Main(m, map[string]func(){"hoarder": hoarderMain, "wall": wallMain})
}
