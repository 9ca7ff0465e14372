package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Line is the line to the service manager under which steward runs. Without one every call does nothing.
type Line struct {
	socket string
	every  time.Duration // how often the watchdog wants a sign; 0: never

	mu   sync.Mutex
	last time.Time
}

// Connect takes the manager's line out of the environment, so that no child can speak in steward's name.
func Connect() *Line {
	l := &Line{socket: os.Getenv("NOTIFY_SOCKET")}
	if limit, err := daemon.SdWatchdogEnabled(true); err == nil && l.socket != "" {
		l.every = limit / 3
	}
	_ = os.Unsetenv("NOTIFY_SOCKET")
	return l
}

// Ready says that steward looks after its projects.
func (l *Line) Ready(text string) { l.say(daemon.SdNotifyReady, "STATUS="+oneLine(text)) }

// Reloading says that the configuration is read again; Ready ends it.
func (l *Line) Reloading() { l.say(daemon.SdNotifyReloading) }

// Stopping says that steward releases what it holds.
func (l *Line) Stopping() { l.say(daemon.SdNotifyStopping) }

// Waiting says why steward does not begin yet, and asks for that much more time to start.
func (l *Line) Waiting(text string, wait time.Duration) {
	l.say("STATUS="+oneLine(text), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (wait+2*time.Minute).Microseconds()))
}

// Pulse is the sign of life for the watchdog. It comes from the main loop, as often as that likes.
func (l *Line) Pulse(now time.Time) {
	l.mu.Lock()
	due := l.every > 0 && now.Sub(l.last).Abs() >= l.every
	if due {
		l.last = now
	}
	l.mu.Unlock()
	if due {
		l.say(daemon.SdNotifyWatchdog)
	}
}

// say sends a datagram, unless nobody listens. A manager that does not take it is not worth an error.
func (l *Line) say(lines ...string) {
	if l.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: l.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(strings.Join(lines, "\n")))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Order is what the service manager wants when steward is asked to end.
type Order string

// The orders.
const (
	OrderStop    Order = "stop"
	OrderRestart Order = "restart" // another steward follows at once
	OrderNone    Order = "none"    // the signal came from somebody else
	OrderUnknown Order = "unknown" // the manager does not answer
)

// Ordered asks systemd what it has ordered.
func Ordered(ctx context.Context, system bool) Order {
	ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
	defer cancel()
	m := &systemd{system: system, run: Exec}
	out, err := m.ctl(ctx, "list-jobs", "--no-legend", "--plain", unitName)
	if err != nil {
		return OrderUnknown
	}
	return orderIn(out)
}

// orderIn reads `systemctl list-jobs`: number, unit, type, state.
func orderIn(jobs string) Order {
	for _, line := range strings.Split(jobs, "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != unitName {
			continue
		}
		if f[2] == "restart" || f[2] == "try-restart" {
			return OrderRestart
		}
		return OrderStop
	}
	return OrderNone
}
