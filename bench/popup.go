package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// perBurst is how many new incidents steward tells one by one within ten seconds; further ones become one summary.
// So after each such group the daemon is made to reload, which starts a new dispatcher with an empty count and keeps
// the connection to the bus.
const perBurst = 3

// measurePopup times a fatal result until a notification server of our own has accepted the popup.
func measurePopup(b *bench) ([]row, error) {
	const n, figure, target = 51, "failure file → popup accepted", "p99 ≤ 100 ms"
	h, err := b.newHouse("[escalate]\nchannels = [\"desktop\"]\n")
	if err != nil {
		return nil, err
	}
	bus, err := startBus(h.dir)
	if errors.Is(err, errNoBus) {
		return []row{absent(figure, target, "not measured: "+err.Error())}, nil
	}
	if err != nil {
		return nil, err
	}
	defer bus.stop()
	server, err := serveNotifications(bus.address)
	if err != nil {
		return nil, err
	}
	defer server.conn.Close()
	h.env = append(h.env, "DBUS_SESSION_BUS_ADDRESS="+bus.address)
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	times, err := p.timePopups(h, server, n)
	return []row{times.within(figure+" (new courier by reload per 3)", target, 100*time.Millisecond)}, err
}

func (p *project) timePopups(h *house, server *notifyd, n int) (sample, error) {
	var times sample
	for i := range n {
		if i%perBurst == 0 && i > 0 {
			if err := h.ask("POST", "/v1/reload", nil); err != nil {
				return times, err
			}
			time.Sleep(100 * time.Millisecond) // the new dispatcher takes up its work
		}
		began, err := p.fail(taskID(i + 1))
		if err != nil {
			return times, err
		}
		select {
		case popup := <-server.accepted:
			times = append(times, popup.at.Sub(began))
		case <-time.After(patience):
			return times, fmt.Errorf("popup %d did not come within %v", i+1, patience)
		}
		time.Sleep(20 * time.Millisecond) // the proof of delivery is entered
		if more := len(server.accepted); more > 0 {
			return times, fmt.Errorf("%d popups too many after failure %d", more, i+1)
		}
	}
	return times, nil
}

// fail submits a task and, a moment later, its fatal result.
func (p *project) fail(id string) (time.Time, error) {
	return p.failing(id, request(id, 1, time.Now()))
}

func (p *project) failing(id string, asked object) (time.Time, error) {
	if _, err := put(p.task(id, "request"), asked); err != nil {
		return time.Time{}, err
	}
	time.Sleep(50 * time.Millisecond)
	return put(p.task(id, "result"), result(id, "GIT_CONFLICT", "fatal", time.Now()))
}

// measureLostEvents has no fsnotify event arrive: the daemon runs in a user namespace that may own no inotify at all.
func measureLostEvents(b *bench) ([]row, error) {
	const figure, target = "failure file → incident, every fsnotify event lost", "≤ 5 s"
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	h.wrap = []string{"unshare", "--user", "--map-root-user", "sh", "-c",
		"echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"", "sh"}
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return []row{absent(figure, target, "not measured: "+strings.ReplaceAll(err.Error(), "\n", "; "))}, nil
	}
	defer h.stop()
	var times sample
	for i := range 5 {
		time.Sleep(time.Duration(i) * 700 * time.Millisecond) // at another moment between two looks each time
		before := h.incidents()
		began, err := p.fail(taskID(i + 1))
		if err != nil {
			return nil, err
		}
		seen, err := await("the incident", func() bool { return h.incidents() > before })
		if err != nil {
			return nil, err
		}
		times = append(times, seen.Sub(began))
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", h.pid()))
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.Contains(to, "inotify") {
			return []row{absent(figure, target, "not measured: the daemon got an inotify all the same")}, nil
		}
	}
	return []row{judged(figure, target, times.String(), times.most() <= 5*time.Second)}, nil
}

// incidents counts the files of the ledger.
func (h *house) incidents() int {
	files, _ := filepath.Glob(h.path("state/incidents/*.json"))
	return len(files)
}
