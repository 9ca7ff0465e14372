package run

import (
	"os"
	"os/exec"
	"testing"
)

// BenchmarkTrue measures one run of /bin/true through the shim, and through os/exec for comparison. RUN_STEWARD names a
// real steward to be the shim; otherwise the test binary is the shim.
func BenchmarkTrue(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("shim", func(b *testing.B) { benchmarkShim(b, nil) })
	b.Run("confined", func(b *testing.B) { benchmarkShim(b, []string{b.TempDir()}) })
}

func benchmarkShim(b *testing.B, write []string) {
	s := script(b, "")
	s.Argv, s.Write = []string{"/bin/true"}, write
	for b.Loop() {
		shim := role("shim")
		if self := os.Getenv("RUN_STEWARD"); self != "" {
			shim = exec.Command(self, shimCommand)
		}
		r, err := start(b.Context(), shim, s, patience)
		if err != nil {
			b.Fatal(err)
		}
		if how, err := r.Wait(); err != nil || how.Code != 0 || how.Fault != "" {
			b.Fatal(how, err)
		}
	}
}
