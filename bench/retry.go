package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// quickRule retries soon. Nobody takes these tasks, so their claims would keep the third one waiting for room, which is
// another figure.
const quickRule = `
[capacity]
dimensions = ["agent"]
[[retry]]
code = "FILE_NOT_FOUND"
action = "retry"
attempts = 2
delay = "1s"
factor = 1.0
max_delay = "10m"
timeout_factor = 2.0
then = "dead"
`

// measureRetry times how long after its due time a failed task is issued again.
func measureRetry(b *bench) ([]row, error) {
	const n, target = 8, "≤ 1 s"
	h, err := b.newHouse(quickRule)
	if err != nil {
		return nil, err
	}
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	var times sample
	for i := range n {
		late, err := p.timeRetry(taskID(i + 1))
		if err != nil {
			return nil, err
		}
		times = append(times, late)
	}
	return []row{judged("due retry → reissued", target, times.String(), times.most() <= time.Second && times.at(0) >= 0)}, nil
}

// timeRetry gives the time from when the ledger says that the retry is due to when the result is out of the way and
// the request invites again.
func (p *project) timeRetry(id string) (time.Duration, error) {
	asked := p.task(id, "request")
	if _, err := put(asked, request(id, 1, time.Now())); err != nil {
		return 0, err
	}
	time.Sleep(50 * time.Millisecond)
	if _, err := put(p.task(id, "result"), result(id, "FILE_NOT_FOUND", "error", time.Now())); err != nil {
		return 0, err
	}
	ledger := p.path("steward/attempts/" + id + ".1.sched.json")
	if _, err := await("the entry in the ledger", func() bool { return exists(ledger) }); err != nil {
		return 0, err
	}
	seen, err := await("the second attempt", func() bool {
		data, _ := os.ReadFile(asked)
		return strings.Contains(string(data), `"timeout_seconds": 600`) && !exists(p.task(id, "result"))
	})
	if err != nil {
		return 0, err
	}
	data, err := os.ReadFile(ledger)
	if err != nil {
		return 0, err
	}
	var entry struct {
		Due   time.Time `json:"due"`
		Nanos int       `json:"due_nanos"`
	}
	if err := json.Unmarshal(data, &entry); err != nil {
		return 0, fmt.Errorf("read %s: %w", ledger, err)
	}
	return seen.Sub(entry.Due.Add(time.Duration(entry.Nanos))), nil
}
