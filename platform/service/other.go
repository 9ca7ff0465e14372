package service

import (
	"context"
	"errors"
	"fmt"

	kardianos "github.com/kardianos/service"
)

// other uses the managers that kardianos/service supports beside systemd and launchd: OpenRC, Upstart, System V and
// others. It is untested on these.
type other struct{ user string }

func (o *other) outer(spec Spec) (kardianos.Service, error) {
	return kardianos.New(nil, &kardianos.Config{Name: Name, DisplayName: Name, Executable: spec.Binary, UserName: spec.User,
		Description: "Looks after the AI coding agents that work on this machine",
		Arguments:   append([]string{"run", "--service"}, spec.Args...), WorkingDirectory: spec.Home})
}

// Install installs and starts the service; it replaces an existing one.
func (o *other) Install(ctx context.Context, spec Spec, handOver func()) (Outcome, error) {
	s, err := o.outer(spec)
	if err != nil {
		return Outcome{}, doing("install the service", err)
	}
	st, err := o.Status(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if st.Running() {
		handOver()
		_ = s.Stop()
	}
	if st.Installed {
		_ = s.Uninstall()
	}
	if err := s.Install(); err != nil {
		return Outcome{}, doing("install the service", err)
	}
	if err := s.Start(); err != nil {
		return Outcome{}, doing("start the service", errors.Join(err, s.Uninstall()))
	}
	return Outcome{Changed: true, Unit: Name, Notes: []string{kardianos.Platform() + " has not been tested by us"}}, nil
}

// Uninstall stops and removes the service.
func (o *other) Uninstall(ctx context.Context) (Outcome, error) {
	st, err := o.Status(ctx)
	if err != nil || !st.Installed {
		return Outcome{}, err
	}
	s, err := o.outer(Spec{User: o.user})
	if err != nil {
		return Outcome{}, err
	}
	if st.Running() {
		err = s.Stop()
	}
	return Outcome{Changed: true, Unit: Name}, errors.Join(err, s.Uninstall())
}

// Start, Stop and Restart pass the command to the manager.
func (o *other) Start(context.Context) error   { return o.order("start") }
func (o *other) Stop(context.Context) error    { return o.order("stop") }
func (o *other) Restart(context.Context) error { return o.order("restart") }

func (o *other) order(verb string) error {
	s, err := o.outer(Spec{User: o.user})
	if err != nil {
		return err
	}
	return doing(verb+" the service", kardianos.Control(s, verb))
}

// Status reports only whether the service is installed and whether it runs.
func (o *other) Status(context.Context) (Status, error) {
	st := Status{Manager: kardianos.Platform(), State: "unknown"}
	s, err := o.outer(Spec{User: o.user})
	if err != nil {
		return st, err
	}
	got, err := s.Status()
	if errors.Is(err, kardianos.ErrNotInstalled) {
		st.State = "inactive"
		return st, nil
	}
	st.Installed, st.Enabled = err == nil, err == nil
	switch got {
	case kardianos.StatusRunning:
		st.Installed, st.State = true, "active"
	case kardianos.StatusStopped:
		st.Installed, st.State = true, "inactive"
	}
	if err != nil {
		st.Detail = err.Error()
	}
	return st, nil
}

// Render always fails: the library writes the definitions of these managers itself.
func (o *other) Render(Spec) ([]File, error) {
	return nil, fmt.Errorf("%s has no file that could be shown", kardianos.Platform())
}
