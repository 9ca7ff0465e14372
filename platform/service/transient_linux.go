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

// Units starts transient services with systemd, over its bus. Its methods may be called from several goroutines.
type Units struct {
	mu   sync.Mutex
	conn *dbus.Conn
}

// callUnits bounds one question to the manager; starting and stopping may take longer.
const callUnits = 10 * time.Second

// OpenUnits connects to the manager that this account may order: root to the machine's, others to their own. An error says
// that there is none, or that it does not answer.
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

// dial gives the connection, made anew if the manager was started anew.
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
	conn, err := open(context.WithoutCancel(ctx)) // its end is ours to say, not the first caller's
	if err == nil {
		u.conn = conn
	}
	return conn, err
}

// Close ends the connection. What was started lives on.
func (u *Units) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
		u.conn = nil
	}
}

// Start starts a unit, waits until its program runs, and gives its main process; 0 when that has ended already. A unit of
// that name that is there is taken for the one that was asked for: whoever asked before may have been killed while the
// manager had still to begin.
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

// answered reports whether the manager refused with that error of its own.
func answered(err error, name string) bool {
	var answer godbus.Error
	return errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1."+name
}

// begun waits until a unit that is there already has got its main process, or has ended.
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

// whyNot makes words of a unit that did not start. Its log says more when the program itself was begun.
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
		argv[i] = strings.ReplaceAll(a, "$", "$$") // systemd would put variables in their place
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
		// It stays when it has ended well, so that its exit code can still be asked for.
		p("RemainAfterExit", true),
	}
}

// Main gives the main process of a unit; 0 when there is none, or no such unit.
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

// exitWait is how long systemd gets to notice an end that we know of already.
const exitWait = 2 * time.Second

// Exit tells how the main process ended.
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

// exitOf reads si_code and si_status as of waitid(2).
func exitOf(how, status int32) UnitExit {
	const exited = 1
	if how == exited {
		return UnitExit{Code: int(status)}
	}
	return UnitExit{Code: -1, Signal: int(status)}
}

// Stop ends all processes of a unit and clears it away. One that is not there is a success.
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
	case <-done: // whatever became of the job, a failed unit is cleared away below
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", name, ctx.Err())
	}
	_ = conn.ResetFailedUnitContext(ctx, name)
	return nil
}
