package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	notifyName = "org.freedesktop.Notifications"
	notifyPath = "/org/freedesktop/Notifications"
)

// errNoBus: the machine has no dbus-daemon.
var errNoBus = errors.New("dbus-daemon is not installed")

// sessionBus is a bus of our own, away from the user's.
type sessionBus struct {
	address string
	cmd     *exec.Cmd
}

func startBus(dir string) (*sessionBus, error) {
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		return nil, errNoBus
	}
	socket, file := filepath.Join(dir, "bus"), filepath.Join(dir, "bus.conf")
	config := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=` + socket + `</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "--config-file="+file, "--nofork", "--print-address")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &sessionBus{address: "unix:path=" + socket, cmd: cmd}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.stop()
		return nil, fmt.Errorf("dbus-daemon: %w", err)
	}
	return b, nil
}

func (b *sessionBus) stop() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// notifyd is a notification server that accepts everything and notes when.
type notifyd struct {
	conn     *dbus.Conn
	last     uint32
	accepted chan posted
}

// posted is a popup that was accepted.
type posted struct {
	at      time.Time
	id      uint32
	actions []string // of each button: what it is named in a press, and its label
}

// serveNotifications puts a server on the bus. godbus calls its methods one at a time per connection or not: last is
// only ever touched under the single popup at a time that the measurement allows.
func serveNotifications(address string) (*notifyd, error) {
	conn, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	n := &notifyd{conn: conn, accepted: make(chan posted, 1000)}
	if err := conn.Export(n, notifyPath, notifyName); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if reply, err := conn.RequestName(notifyName, 0); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		return nil, errors.Join(fmt.Errorf("own %s: reply %d: %w", notifyName, reply, err), conn.Close())
	}
	return n, nil
}

// GetServerInformation answers who the server is.
func (n *notifyd) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return "bench", "steward", "1", "1.2", nil
}

// GetCapabilities answers what the server understands.
func (n *notifyd) GetCapabilities() ([]string, *dbus.Error) { return []string{"body", "actions"}, nil }

// Notify accepts a popup.
func (n *notifyd) Notify(_ string, replaces uint32, _, _, _ string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	at := time.Now()
	if replaces == 0 {
		n.last++
		replaces = n.last
	}
	n.accepted <- posted{at, replaces, actions}
	return replaces, nil
}

// press reports that a button was pressed, as a server does.
func (n *notifyd) press(id uint32, action string) error {
	return n.conn.Emit(notifyPath, notifyName+".ActionInvoked", id, action)
}

// CloseNotification takes a popup away.
func (n *notifyd) CloseNotification(uint32) *dbus.Error { return nil }
