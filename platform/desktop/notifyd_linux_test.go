package desktop

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

const watchdog = 30 * time.Second // for what must come; never a measure of speed

// privateBus is a session bus of the test's own.
type privateBus struct {
	path    string
	process *os.Process
}

func (b *privateBus) address() string { return "unix:path=" + b.path }

// startBus starts dbus-daemon, or skips the test where there is none. services are D-Bus service files.
func startBus(t testing.TB, services ...string) *privateBus {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i, text := range services {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.service", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return startBusIn(t, dir)
}

func startBusIn(t testing.TB, dir string) *privateBus {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	b := &privateBus{path: filepath.Join(dir, "bus")}
	config := filepath.Join(dir, "bus.conf")
	text := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=` + b.path + `</listen><servicedir>` + dir + `</servicedir>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--config-file="+config, "--nofork", "--print-address")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.process = cmd.Process
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon: %v", err)
	}
	return b
}

// note is a popup on the test's screen.
type note struct {
	App, Title, Text string
	Replaces         uint32
	Urgency          any
	Expire           int32
}

// notifyd is a notification server of the test's own.
type notifyd struct {
	name      string
	abilities []string
	refuse    bool
	nothing   bool          // answers 0
	pause     chan struct{} // Notify waits until it is closed

	conn   *dbus.Conn
	mu     sync.Mutex
	last   uint32
	got    []note
	open   map[uint32]note
	closed []uint32
	signal chan struct{} // one token per Notify that came in
}

// serve puts the server on the bus.
func (n *notifyd) serve(t testing.TB, b *privateBus) *notifyd {
	t.Helper()
	conn, err := dbus.Connect(b.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.conn, n.open, n.signal = conn, map[uint32]note{}, make(chan struct{}, 1000)
	if n.name == "" {
		n.name = "test"
	}
	if err := conn.Export(n, serverPath, serverName); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName(serverName, 0); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return n
}

func (n *notifyd) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return n.name, "steward", "1", "1.2", nil
}

func (n *notifyd) GetCapabilities() ([]string, *dbus.Error) { return n.abilities, nil }

func (n *notifyd) Notify(app string, replaces uint32, _, title, text string, _ []string, hints map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	select {
	case n.signal <- struct{}{}:
	default: // nobody counts
	}
	if n.refuse {
		return 0, dbus.NewError("org.freedesktop.Notifications.Error.ExcessNotificationGeneration", []any{"too many"})
	}
	if n.pause != nil {
		<-n.pause
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := note{app, title, text, replaces, hints["urgency"].Value(), expire}
	n.got = append(n.got, m)
	if n.nothing {
		return 0, nil
	}
	id := replaces
	if id == 0 {
		n.last++
		id = n.last
	}
	n.open[id] = m
	return id, nil
}

func (n *notifyd) CloseNotification(id uint32) *dbus.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = append(n.closed, id)
	if _, ok := n.open[id]; !ok {
		return dbus.NewError("org.freedesktop.DBus.Error.Failed", []any{"no such popup"})
	}
	delete(n.open, id)
	return nil
}

// screen gives the open popups.
func (n *notifyd) screen() map[uint32]note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.open)
}

// notes gives every message that came in.
func (n *notifyd) notes() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

// popupsOn gives Popups for a bus address. limit 0 is the usual one, made safe for slow machines.
func popupsOn(t testing.TB, address string, limit time.Duration) *Popups {
	t.Helper()
	p := NewPopups()
	p.screen.address = func() string { return address }
	if p.limit = limit; limit == 0 {
		p.limit = watchdog
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(watchdog)
	for !ok() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("never came: %s", what)
		}
	}
}
