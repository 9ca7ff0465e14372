package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Units starts transient services with systemd over D-Bus. Its methods are safe for concurrent use.
type Units struct {
	mu   sync.Mutex
	conn *dbus.Conn
}

// callUnits limits one call to the manager; starting and stopping may take longer.
const callUnits = 10 * time.Second

// OpenUnits connects to the manager that this account may control: root to the machine's, other users to their own.
// It fails if there is no manager or if the manager does not answer.
func OpenUnits(ctx context.Context) (*Units, error) {
	u := &Units{}
	conn, err := u.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the service manager: %w", err)
	}
	if _, err := conn.GetManagerProperty("Version"); err != nil {
		u.Close()
		return nil, fmt.Errorf("reach the service manager: %w", err)
	}
	return u, nil
}

// dial returns the connection, and reconnects if the manager was restarted.
func (u *Units) dial(ctx context.Context) (*dbus.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil && u.conn.Connected() {
		return u.conn, nil
	}
	if u.conn != nil {
		u.conn.Close()
		u.conn = nil
	}
	open := dbus.NewUserConnectionContext
	if os.Getuid() == 0 {
		open = dbus.NewSystemConnectionContext
	}
	conn, err := open(context.WithoutCancel(ctx)) // the connection outlives the first caller
	if err == nil {
		u.conn = conn
	}
	return conn, err
}

// Close closes the connection. Started units keep running.
func (u *Units) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
		u.conn = nil
	}
}

// Start starts a unit, waits until its program runs, and returns its main pid, or 0 if that process has already
// ended. It treats an existing unit of the same name as the requested one: an earlier caller may have been killed
// before the manager had started it. See docs/decisions.md, "A service of the next run's name is the next run".
func (u *Units) Start(ctx context.Context, unit Unit) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callUnits)
	defer cancel()
	conn, err := u.dial(ctx)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", unit.Name, err)
	}
	done := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, unit.Name, "fail", unit.properties(), done)
	if answered(err, "UnitExists") {
		return u.begun(ctx, unit.Name)
	}
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", unit.Name, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			err = u.whyNot(ctx, conn, unit.Name, result)
		}
	case <-ctx.Done():
		err = fmt.Errorf("start %s: %w", unit.Name, ctx.Err())
	}
	if err != nil {
		_ = u.Stop(context.WithoutCancel(ctx), unit.Name)
		return 0, err
	}
	return u.Main(ctx, unit.Name)
}

// answered reports whether the manager returned its own error of that name.
func answered(err error, name string) bool {
	var answer godbus.Error
	return errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1."+name
}

// begun waits until an existing unit has its main process or has ended.
func (u *Units) begun(ctx context.Context, name string) (pid int, err error) {
	for {
		if pid, err = u.Main(ctx, name); err != nil || pid > 0 {
			return pid, err
		}
		conn, err := u.dial(ctx)
		if err != nil {
			return 0, fmt.Errorf("start %s: %w", name, err)
		}
		p, err := conn.GetUnitPropertyContext(ctx, name, "ActiveState")
		if err != nil {
			return 0, fmt.Errorf("start %s: %w", name, err)
		}
		if state, _ := p.Value.Value().(string); state != "activating" {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("start %s: %w", name, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// whyNot describes why a unit did not start. The unit's log has more details if the program itself started.
func (u *Units) whyNot(ctx context.Context, conn *dbus.Conn, name, result string) error {
	p, err := conn.GetUnitTypePropertyContext(ctx, name, "Service", "ExecMainStatus")
	if err != nil {
		return fmt.Errorf("start %s: %s", name, result)
	}
	return fmt.Errorf("start %s: %s, status %v (see: systemctl status %s)", name, result, p.Value.Value(), name)
}

func (unit Unit) properties() []dbus.Property {
	p := func(name string, value any) dbus.Property {
		return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
	}
	type execStart struct {
		Path  string
		Argv  []string
		Fails bool
	}
	argv := make([]string, len(unit.Argv))
	for i, a := range unit.Argv {
		argv[i] = strings.ReplaceAll(a, "$", "$$") // systemd would expand variables
	}
	env := []string{}
	for _, e := range unit.Env {
		if utf8.ValidString(e) && !strings.ContainsFunc(e, func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }) {
			env = append(env, e)
		}
	}
	return []dbus.Property{
		p("Description", unit.Description), p("Type", "exec"), p("ExecStart", []execStart{{unit.Path, argv, false}}),
		p("WorkingDirectory", unit.Dir), p("Environment", env), p("Slice", UnitSlice),
		p("StandardInput", "null"), p("StandardOutputFileToAppend", unit.Log), p("StandardErrorFileToAppend", unit.Log),
		p("Restart", "no"), p("KillMode", "mixed"), p("TimeoutStopUSec", uint64(unit.Stop.Microseconds())),
		// The unit remains after a successful exit, so that its exit code can still be read.
		p("RemainAfterExit", true),
	}
}

// Main returns the main pid of a unit; 0 if the unit has no main process or does not exist.
func (u *Units) Main(ctx context.Context, name string) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callUnits)
	defer cancel()
	conn, err := u.dial(ctx)
	if err != nil {
		return 0, err
	}
	p, err := conn.GetUnitTypePropertyContext(ctx, name, "Service", "MainPID")
	if err != nil {
		return 0, fmt.Errorf("main process of %s: %w", name, err)
	}
	n, _ := p.Value.Value().(uint32)
	return int(n), nil
}

// exitWait is how long to wait until systemd notices an exit that is already known here.
const exitWait = 2 * time.Second

// Exit reports how the main process ended.
func (u *Units) Exit(ctx context.Context, name string) (UnitExit, error) {
	ctx, cancel := context.WithTimeout(ctx, exitWait)
	defer cancel()
	conn, err := u.dial(ctx)
	if err != nil {
		return UnitExit{}, err
	}
	for {
		all, err := conn.GetUnitTypePropertiesContext(ctx, name, "Service")
		if err != nil {
			return UnitExit{}, fmt.Errorf("exit of %s: %w", name, err)
		}
		if at, _ := all["ExecMainExitTimestamp"].(uint64); at > 0 {
			how, _ := all["ExecMainCode"].(int32)
			status, _ := all["ExecMainStatus"].(int32)
			return exitOf(how, status), nil
		}
		select {
		case <-ctx.Done():
			return UnitExit{}, fmt.Errorf("exit of %s: systemd does not know of it", name)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// exitOf decodes si_code and si_status (waitid(2)).
func exitOf(how, status int32) UnitExit {
	const exited = 1
	if how == exited {
		return UnitExit{Code: int(status)}
	}
	return UnitExit{Code: -1, Signal: int(status)}
}

// Stop ends all processes of a unit and removes the unit. It returns nil if the unit does not exist.
func (u *Units) Stop(ctx context.Context, name string) error {
	conn, err := u.dial(ctx)
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	done := make(chan string, 1)
	_, err = conn.StopUnitContext(ctx, name, "replace", done)
	switch {
	case answered(err, "NoSuchUnit"):
		return nil
	case err != nil:
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case <-done: // a failed unit is removed below, whatever the job's result
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", name, ctx.Err())
	}
	_ = conn.ResetFailedUnitContext(ctx, name)
	return nil
}
