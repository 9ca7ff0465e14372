package supervisor_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain gives chance the same start every time, so that a change is judged by itself and not by luck. The long run
// (make long) asks for other starts with -rapid.seed.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.seed" })
	if !given {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}
