package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestUnhurried: the program is executed once more as the same process, its threads may be woken late, which those inherit
// that it starts, unless they are started promptly.
func TestUnhurried(t *testing.T) {
	out := new(strings.Builder)
	c := start(t, "unhurried", func(c *exec.Cmd) { c.Args = append(c.Args, "some", "words"); c.Stderr = out })
	pid := c.pid()
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("pid %d words [some words] marked false children 4000000 prompt 50000", pid)
	if got := strings.TrimSpace(out.String()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// playUnhurried tells on its error output how it and its children may be woken.
func playUnhurried() {
	const slack = 4 * time.Millisecond
	if err := Unhurried(slack); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_, marked := os.LookupEnv(unhurried)
	plain := exec.Command("cat", "/proc/self/timerslack_ns")
	own, err := plain.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	cat := exec.Command("cat", "/proc/self/timerslack_ns")
	said := new(strings.Builder)
	cat.Stdout = said
	err = Prompt(cat.Start)
	if err == nil {
		err = cat.Wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	fmt.Fprintf(os.Stderr, "pid %d words %v marked %v children %s prompt %s\n", os.Getpid(), os.Args[1:], marked, strings.TrimSpace(string(own)), strings.TrimSpace(said.String()))
}
