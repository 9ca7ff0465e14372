package main

import (
	"errors"
	"fmt"
	"time"
)

// measureVoice times a fatal result until its sentence can be heard: the real synthesizer and player, on a sound server
// whose loudspeaker is recorded in pieces of 10 ms. Warm: the first sentence is not counted.
func measureVoice(b *bench) ([]row, error) {
	const n, figure, target = 20, "failure file → first audible sample", "p99 ≤ 500 ms warm"
	h, err := b.newHouse("[escalate]\nchannels = [\"speech\"]\n")
	if err != nil {
		return nil, err
	}
	e, err := startEar(h.dir)
	if errors.Is(err, errNoSound) {
		return []row{absent(figure, target, err.Error())}, nil
	}
	if err != nil {
		return nil, err
	}
	defer e.stop()
	h.env = append(h.env, "PULSE_SERVER="+e.server, "XDG_RUNTIME_DIR="+h.dir)
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	times, err := p.timeVoice(h, e, n+1)
	if len(times) > 1 {
		times = times[1:]
	}
	return []row{times.within(figure, target, 500*time.Millisecond)}, err
}

func (p *project) timeVoice(h *house, e *ear, n int) (sample, error) {
	var times sample
	for i := range n {
		if err := e.arm(); err != nil {
			return times, err
		}
		asked := request(taskID(i+1), 1, time.Now())
		asked["context"].(object)["voice_mode_active"] = true // else it is only shown
		began, err := p.failing(taskID(i+1), asked)
		if err != nil {
			return times, err
		}
		heard, err := e.sound()
		if err != nil {
			return times, fmt.Errorf("sentence %d: %w", i+1, err)
		}
		times = append(times, heard.Sub(began))
		if err := h.hush(); err != nil {
			return times, err
		}
	}
	return times, nil
}

// hush cuts the sentence short, which takes seconds to its end: whatever is open has been seen, and the new dispatcher that
// a reload starts counts its incidents again and has nothing to say.
func (h *house) hush() error {
	var page struct {
		Incidents []struct{ Key, State string }
	}
	if err := h.get("/v1/incidents", &page); err != nil {
		return err
	}
	for _, i := range page.Incidents {
		if i.State == "acked" {
			continue
		}
		if err := h.ask("POST", "/v1/incidents/"+i.Key+"/ack", nil); err != nil {
			return err
		}
	}
	return h.ask("POST", "/v1/reload", nil)
}
