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

// Line is the connection to the service manager that runs steward. Without a manager every call does nothing.
type Line struct {
	socket string
	every  time.Duration // interval of watchdog notifications; 0: never

	mu   sync.Mutex
	last time.Time
}

// Connect reads the manager's socket from the environment and removes it there, so that no child can notify in
// steward's name.
func Connect() *Line {
	l := &Line{socket: os.Getenv("NOTIFY_SOCKET")}
	if limit, err := daemon.SdWatchdogEnabled(true); err == nil && l.socket != "" {
		l.every = limit / 3
	}
	_ = os.Unsetenv("NOTIFY_SOCKET")
	return l
}

// Ready tells the manager that steward now supervises its projects.
func (l *Line) Ready(text string) { l.say(daemon.SdNotifyReady, "STATUS="+oneLine(text)) }

// Reloading tells the manager that the configuration is being read again; Ready ends this state.
func (l *Line) Reloading() { l.say(daemon.SdNotifyReloading) }

// Stopping tells the manager that steward is releasing its holds and stopping.
func (l *Line) Stopping() { l.say(daemon.SdNotifyStopping) }

// Waiting tells the manager why steward has not started yet, and extends the start timeout by wait and two minutes.
func (l *Line) Waiting(text string, wait time.Duration) {
	l.say("STATUS="+oneLine(text), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (wait+2*time.Minute).Microseconds()))
}

// Pulse notifies the watchdog. The main loop calls it at any rate; Pulse limits the rate itself.
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

// say sends a datagram if there is a socket. It ignores errors: a failed notification is not worth reporting.
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

// Order is the job that the service manager has queued when steward is asked to end.
type Order string

// The orders.
const (
	OrderStop    Order = "stop"
	OrderRestart Order = "restart" // another steward starts immediately
	OrderNone    Order = "none"    // the signal did not come from the manager
	OrderUnknown Order = "unknown" // the manager did not answer
)

// Ordered queries systemd for the queued job.
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

// orderIn parses `systemctl list-jobs`: number, unit, type, state.
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
