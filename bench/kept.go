package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kept is a daemon whose steward keeps agents, each in a session of its own. Each sleeps for another number of seconds, by
// which its processes are told apart.
type kept struct {
	*house
	n int
}

const keptSeconds = 7_000

// newKept starts a steward with n kept agents, and waits until all run.
func (b *bench) newKept(n int) (*kept, error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	k := &kept{house: h, n: n}
	p, err := k.addProject("p", "livhana-layer1.1")
	if err != nil {
		return nil, err
	}
	config := "[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nplace = \"session\"\nstop = \"1s\"\n"
	for i := range n {
		config += fmt.Sprintf("[[agent]]\nname = \"kept-%02d\"\nproject = %q\ncommand = [\"/bin/sleep\", \"%d\"]\n", i, p.dir, keptSeconds+i)
	}
	if err := os.WriteFile(k.path("config.toml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if _, err := k.start(); err != nil {
		return nil, err
	}
	if _, err := await("all agents", func() bool { return len(k.lives()) == n }); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// lives are the processes of the agents, by number; ended ones that nobody has waited for do not count.
func (k *kept) lives() map[int][]int {
	found := map[int][]int{}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		data, _ := os.ReadFile(file)
		seconds, ok := strings.CutPrefix(string(data), "/bin/sleep\x00")
		i, _ := strconv.Atoi(strings.TrimSuffix(seconds, "\x00"))
		if i -= keptSeconds; !ok || i < 0 || i >= k.n || !k.mine(filepath.Dir(file)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		found[i] = append(found[i], pid)
	}
	return found
}

// mine tells whether a process was started by this house's steward.
func (k *kept) mine(proc string) bool {
	environ, _ := os.ReadFile(proc + "/environ")
	return strings.Contains(string(environ), "STEWARD_STATE_DIR="+k.path("state")+"\x00")
}

// close ends the steward, and then the agents, which outlive it on purpose.
func (k *kept) close() {
	if k.cmd != nil {
		k.stop()
	}
	for _, pids := range k.lives() {
		for _, pid := range pids {
			_ = kill(pid)
		}
	}
}

// timeCrash kills the steward and starts it again, as a service manager would, and counts what became of its agents.
func (k *kept) timeCrash() ([]row, error) {
	const rounds = 5
	figure := fmt.Sprintf("daemon killed with %d agents that it started → serving again", k.n)
	before := k.lives()
	var times sample
	for range rounds {
		began := time.Now()
		k.crash()
		if _, err := k.start(); err != nil {
			return nil, err
		}
		seen, err := await("an answer", func() bool { return k.get("/healthz", nil) == nil })
		if err != nil {
			return nil, err
		}
		times = append(times, seen.Sub(began))
	}
	time.Sleep(2 * time.Second) // duplicates would be there by now
	doubled, lost := compareLives(before, k.lives(), k.n)
	return []row{
		judged(figure, "≤ 1 s", times.String(), times.most() <= time.Second),
		judged(fmt.Sprintf("  agents doubled; lost or replaced, in %d kills", rounds), "0; 0", fmt.Sprintf("%d; %d", doubled, lost), doubled+lost == 0),
	}, nil
}

func compareLives(before, after map[int][]int, n int) (doubled, lost int) {
	for i := range n {
		if len(after[i]) > 1 {
			doubled++
		}
		if len(after[i]) == 0 || len(before[i]) == 1 && len(after[i]) == 1 && before[i][0] != after[i][0] {
			lost++
		}
	}
	return doubled, lost
}

// timeCrash kills the daemon of a crowd that beats by itself, and starts it again.
func (c *crowd) timeCrash() ([]row, error) {
	const figure, target = "daemon killed with 100 agents that beat → serving again", "≤ 1 s"
	var times sample
	for range 5 {
		began := time.Now()
		c.crash()
		if _, err := c.start(); err != nil {
			return nil, err
		}
		seen, err := await("an answer", func() bool { return c.get("/healthz", nil) == nil })
		if err != nil {
			return nil, err
		}
		times = append(times, seen.Sub(began))
	}
	missing := math.Abs(float64(crowdProjects*crowdAgents - c.alive()))
	raised, _ := filepath.Glob(c.path("state/incidents/*.json"))
	return []row{
		judged(figure, target, times.String(), times.most() <= time.Second),
		judged("  agents not alive; incidents raised", "0; 0", fmt.Sprintf("%.0f; %d", missing, len(raised)), missing == 0 && len(raised) == 0),
	}, nil
}
