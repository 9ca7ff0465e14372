package service

import (
	"context"
	"time"

	kardianos "github.com/kardianos/service"
)

// Run runs f; under the Windows service manager it also answers that manager. It has not been tested by us.
func Run(ctx context.Context, f func(context.Context) error) error {
	if kardianos.Interactive() {
		return f(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &program{run: func() error { return f(ctx) }, cancel: cancel, done: make(chan error, 1)}
	s, err := kardianos.New(p, &kardianos.Config{Name: Name})
	if err != nil {
		return err
	}
	return s.Run()
}

type program struct {
	run    func() error
	cancel func()
	done   chan error
}

func (p *program) Start(s kardianos.Service) error {
	go func() { p.done <- p.run() }()
	return nil
}

// Stop waits as long as the release may take, and no longer.
func (p *program) Stop(kardianos.Service) error {
	p.cancel()
	patience := time.NewTimer(stopTime)
	defer patience.Stop()
	select {
	case err := <-p.done:
		return err
	case <-patience.C:
		return nil
	}
}

const stopTime = 10 * time.Second
