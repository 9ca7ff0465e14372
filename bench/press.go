package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// measurePress times the press of a popup's button, as a notification server of our own reports it, until the reply lies
// where the agent that asked reads (protocol 004).
func measurePress(b *bench) ([]row, error) {
	const n, figure, target = 51, "press of a button → reply file", ""
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
	p, err := h.addProject("p")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.messages(""), 0o755); err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	times, err := p.timePresses(h, server, n)
	if err != nil {
		return nil, err
	}
	return []row{told(figure, times.String())}, nil
}

// messages is a path among protocol 004's messages.
func (p *project) messages(name string) string { return filepath.Join(p.dir, ".agents/messages", name) }

func (p *project) timePresses(h *house, server *notifyd, n int) (sample, error) {
	var times sample
	for i := range n {
		if i%perBurst == 0 && i > 0 {
			if err := h.ask("POST", "/v1/reload", nil); err != nil {
				return times, err
			}
			time.Sleep(100 * time.Millisecond) // the new dispatcher takes up its work
		}
		popup, err := p.ask(server, i)
		if err != nil {
			return times, err
		}
		time.Sleep(50 * time.Millisecond) // the proof of delivery is entered
		pressed := time.Now()
		if err := server.press(popup.id, popup.actions[2]); err != nil {
			return times, err
		}
		written, err := await("the reply", func() bool { return p.replies() > i })
		if err != nil {
			return times, fmt.Errorf("press %d: %w", i+1, err)
		}
		times = append(times, written.Sub(pressed))
	}
	return times, nil
}

// ask has an agent ask for a decision, and gives the popup that asks the human.
func (p *project) ask(server *notifyd, i int) (posted, error) {
	question := object{"message_type": "BLOCKER_ESCALATION", "task_id": fmt.Sprintf("int_%03d", i), "from_agent": "INTEGRATIONS",
		"blocker_type": "clarification_needed", "severity": "high", "timestamp": stamp(time.Now()), "description": "Which database?", "context": "",
		"options": []string{"Use production", "Use the staging copy"}, "suggested_resolution": "", "escalate_to": "human"}
	if _, err := put(p.messages(fmt.Sprintf("blocker-%03d.json", i)), question); err != nil {
		return posted{}, err
	}
	for end := time.After(patience); ; {
		select {
		case popup := <-server.accepted:
			if len(popup.actions) == 4 { // each button has a name and a label
				return popup, nil
			}
		case <-end:
			return posted{}, fmt.Errorf("popup %d did not come within %v", i+1, patience)
		}
	}
}

// replies counts the answers that steward has written.
func (p *project) replies() int {
	files, _ := filepath.Glob(p.messages("resolution-*.json"))
	return len(files)
}
