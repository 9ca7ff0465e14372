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

const watchdog = 30 * time.Second // timeout for expected events; never a measure of speed

// privateBus is a session bus of the test.
type privateBus struct {
	path    string
	process *os.Process
}

func (b *privateBus) address() string { return "unix:path=" + b.path }

// startBus starts dbus-daemon, or skips the test if it is not installed. services are D-Bus service files.
func startBus(t testing.TB, services ...string) *privateBus {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus") // the path of t.TempDir is too long for a socket
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
	Quiet            any // hint
}

// notifyd is a notification server of the test.
type notifyd struct {
	name      string
	abilities []string
	refuse    bool
	nothing   bool            // replies with 0
	pause     chan struct{}   // Notify waits until it is closed
	asked     func()          // runs before the capabilities are returned
	answering func(id uint32) // runs before Notify replies

	conn   *dbus.Conn
	mu     sync.Mutex
	last   uint32
	got    []note
	open   map[uint32]note
	closed []uint32

	buttons map[uint32][]string // keys and labels of the open popups
	signal  chan struct{}       // one token per received Notify
}

// serve registers the server on the bus.
func (n *notifyd) serve(t testing.TB, b *privateBus) *notifyd {
	t.Helper()
	if !n.try(b) {
		t.Fatal("no connection, or the name is taken")
	}
	t.Cleanup(func() { n.conn.Close() })
	return n
}

func (n *notifyd) try(b *privateBus) bool {
	conn, err := dbus.Connect(b.address())
	if err != nil {
		return false
	}
	n.conn, n.open, n.signal, n.buttons = conn, map[uint32]note{}, make(chan struct{}, 1000), map[uint32][]string{}
	if n.name == "" {
		n.name = "test"
	}
	if err := conn.Export(n, serverPath, serverName); err != nil {
		conn.Close()
		return false
	}
	reply, err := conn.RequestName(serverName, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		conn.Close()
		return false
	}
	return true
}

func (n *notifyd) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return n.name, "steward", "1", "1.2", nil
}

func (n *notifyd) GetCapabilities() ([]string, *dbus.Error) {
	n.mu.Lock()
	asked := n.asked
	n.mu.Unlock()
	if asked != nil {
		asked()
	}
	return n.abilities, nil
}

func (n *notifyd) Notify(app string, replaces uint32, _, title, text string, buttons []string, hints map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	select {
	case n.signal <- struct{}{}:
	default: // the test does not count
	}
	n.mu.Lock()
	refuse := n.refuse
	n.mu.Unlock()
	if refuse {
		return 0, dbus.NewError("org.freedesktop.Notifications.Error.ExcessNotificationGeneration", []any{"too many"})
	}
	if n.pause != nil {
		<-n.pause
	}
	m := note{app, title, text, replaces, hints["urgency"].Value(), expire, hints["suppress-sound"].Value()}
	id := n.put(m, buttons)
	n.mu.Lock()
	answering := n.answering
	n.mu.Unlock()
	if answering != nil {
		answering(id)
	}
	return id, nil
}

// before makes f run before every reply to a Notify.
func (n *notifyd) before(f func(id uint32)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answering = f
}

func (n *notifyd) put(m note, buttons []string) (id uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, m)
	if n.nothing {
		return 0
	}
	if id = m.Replaces; id == 0 {
		n.last++
		id = n.last
	}
	n.open[id] = m
	if n.buttons != nil {
		n.buttons[id] = buttons
	}
	return id
}

func (n *notifyd) CloseNotification(id uint32) *dbus.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = append(n.closed, id)
	if _, ok := n.open[id]; !ok {
		return dbus.NewError("org.freedesktop.DBus.Error.Failed", []any{"no such popup"})
	}
	delete(n.open, id)
	n.tell("NotificationClosed", id, uint32(3))
	return nil
}

// tell broadcasts a signal.
func (n *notifyd) tell(member string, args ...any) {
	_ = n.conn.Emit(serverPath, serverName+"."+member, args...)
}

// press reports a press as real servers do: the popup is closed, too.
func (n *notifyd) press(id uint32, key string) {
	n.tell("ActionInvoked", id, key)
	n.tell("NotificationClosed", id, uint32(2))
}

// key returns the bus key of the popup's button with that label; "" if there is none.
func (n *notifyd) key(id uint32, label string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pair := range slices.Chunk(n.buttons[id], 2) {
		if pair[1] == label {
			return pair[0]
		}
	}
	return ""
}

// shown returns the button labels of a popup.
func (n *notifyd) shown(id uint32) (labels []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pair := range slices.Chunk(n.buttons[id], 2) {
		labels = append(labels, pair[1])
	}
	return labels
}

// screen returns the open popups.
func (n *notifyd) screen() map[uint32]note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.open)
}

// notes returns all received messages.
func (n *notifyd) notes() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

// popupsOn returns Popups for a bus address. limit 0 means the default, increased for slow machines.
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
