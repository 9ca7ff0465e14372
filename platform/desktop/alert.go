package desktop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/platform/child"
)

// alertTime is how long an alerter may wait for a press. Reminders replace its popup long before that.
const alertTime = 24 * time.Hour

// alerts are the popups with buttons. alerter reports the pressed button when it exits, so each popup has a waiting
// child process.
type alerts struct {
	mu  sync.Mutex
	all map[string]*alert // by message key
}

// alert is one such child. alerts.mu guards ended and settled.
type alert struct {
	stop    context.CancelFunc
	done    chan struct{}
	err     error             // set when done is closed
	ids     map[string]string // of the actions, by label
	settled bool              // the popup is on the screen
	ended   bool
}

// labels adapts labels to alerter, which takes them as one comma-separated list and returns the pressed one: no
// commas, no duplicates, and none that looks like alerter's own output ("@CLOSED").
func labels(actions []Action) (list []string, ids map[string]string) {
	ids = map[string]string{}
	for _, a := range actions {
		label := strings.TrimLeft(strings.ReplaceAll(a.Label, ",", " "), "@ ")
		label = strings.Join(strings.Fields(label), " ")
		if _, twice := ids[label]; label != "" && !twice {
			ids[label] = a.ID
			list = append(list, label)
		}
	}
	return list, ids
}

// ask shows a popup with buttons and leaves its alerter waiting in the background.
func (b *banner) ask(ctx context.Context, c toolRun, m Message, ids map[string]string) (Proof, error) {
	life, stop := context.WithCancel(context.Background())
	a := &alert{stop: stop, done: make(chan struct{}), ids: ids}
	b.alerts.put(m.Key, a)
	c.limit = alertTime
	go b.await(life, c, m.Key, a)
	settle := time.NewTimer(b.settle)
	defer settle.Stop()
	select {
	case <-settle.C:
	case <-a.done:
	case <-ctx.Done():
		b.alerts.drop(m.Key)
		return Proof{}, context.Cause(ctx)
	}
	if b.settled(m.Key, a) {
		return Proof{Result: Shown, Actions: true, Detail: "alerter has it on the screen", ID: groupOf(m.Key)}, nil
	}
	<-a.done
	if a.err != nil {
		return Proof{}, hinted(a.err, macRefuse)
	}
	return Proof{Result: Sent, Detail: fmt.Sprintf("alerter ended within %s", b.settle), ID: groupOf(m.Key)}, nil
}

// await waits until the alerter ends and reports the outcome, unless the popup was withdrawn or replaced meanwhile.
func (b *banner) await(life context.Context, c toolRun, key string, a *alert) {
	defer close(a.done)
	said := &child.Tail{}
	c.stdout = said
	_, a.err = c.run(life)
	a.stop()

	b.alerts.mu.Lock()
	defer b.alerts.mu.Unlock()
	a.ended = true
	if b.alerts.all[key] != a {
		return
	}
	delete(b.alerts.all, key)
	id, pressed := a.ids[strings.TrimSpace(said.String())]
	switch {
	case a.err == nil && pressed:
		b.out.put(Pressed, key, id)
	case !a.settled: // ask reports it
	case a.err == nil:
		b.out.put(Closed, key, "")
	default:
		b.out.put(Lost, key, "")
	}
}

func (l *alerts) put(key string, a *alert) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*alert{}
	}
	l.all[key] = a
}

// settled reports whether the popup is still shown. From then on its end produces an event.
func (b *banner) settled(key string, a *alert) bool {
	b.alerts.mu.Lock()
	defer b.alerts.mu.Unlock()
	a.settled = !a.ended
	return a.settled
}

// drop ends the child of a key without an event; its popup stays until it is replaced or removed.
func (l *alerts) drop(key string) {
	l.mu.Lock()
	a := l.all[key]
	delete(l.all, key)
	l.mu.Unlock()
	if a != nil {
		a.stop()
		<-a.done
	}
}

// close ends all children.
func (b *banner) close() error {
	b.alerts.mu.Lock()
	var all []*alert
	for _, a := range b.alerts.all {
		all = append(all, a)
	}
	clear(b.alerts.all)
	b.alerts.mu.Unlock()
	for _, a := range all {
		a.stop()
		<-a.done
	}
	return nil
}
