// By default the runtime polls once a second whether it may use more processors. An idle steward must sleep.
//go:debug updatemaxprocs=0

// Command steward supervises the AI coding agents that work on a machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process exit. An interrupt ends the context; a second interrupt ends the process.
func run(args []string, out, errOut io.Writer) int {
	a := &app{out: out, err: errOut}
	root := a.command()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var q quiet
	if errors.As(err, &q) {
		return q.code
	}
	printError(errOut, err, asksJSON(args))
	return exitCode(err)
}

// app holds the state shared by all commands: the global flags and the outputs.
type app struct {
	out, err   io.Writer
	configFile string
	socket     string
	output     string
	noColor    bool
	warned     bool // the user was warned that the configuration is unusable
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "steward",
		Short:         "Looks after the AI coding agents that work on this machine",
		Long:          "steward looks after the AI coding agents that work side by side on this machine: it sets up their shared\nfolders, holds tasks back while the machine is too full, notices agents that die, retries what failed by rule,\nand notifies you when you are needed. It reads and writes the agents' own files; the agents need not change.",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if a.output != "text" && a.output != "json" {
				return usageError{fmt.Errorf("-o %s: use text or json", terminal.OneWord(a.output))}
			}
			if err := emptyFlags(c); err != nil {
				return err
			}
			a.releaseForClient(c)
			return nil
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&a.configFile, "config", "", "configuration `FILE` (default: the platform's place)")
	f.StringVar(&a.socket, "socket", "", "the daemon's socket `PATH`")
	f.StringVarP(&a.output, "output", "o", "text", "text or json")
	f.BoolVar(&a.noColor, "no-color", false, "print without colour")
	root.SetFlagErrorFunc(flagWords)
	root.AddCommand(a.runCommand(), a.planCommand(), a.checkCommand(), a.bootCommand(), a.demoCommand())
	root.AddCommand(a.viewCommands()...)
	root.AddCommand(a.operatorCommands()...)
	root.AddCommand(a.configCommand(), a.versionCommand(), a.serviceCommand(), a.doctorCommand())
	root.AddCommand(a.runTaskCommand(), a.execCommand())
	root.AddCommand(a.taskCommand())
	root.AddCommand(a.workerCommand())
	root.AddCommand(a.lockCommand())
	root.SetOut(a.out) // cobra's own commands copy the output when they are created
	root.SetErr(a.err)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	refuseWrongUsage(root)
	return root
}

// place returns the paths of this user's steward, with flags and environment applied.
func (a *app) place() platform.Paths {
	home, _ := os.UserHomeDir()
	p := platform.DefaultPaths(os.Getenv, home, os.Getuid())
	if a.configFile != "" {
		p.Config = a.configFile
	}
	if a.socket != "" {
		p.Socket = a.socket
	}
	return p
}

// settings reads the configuration. A file named by the user must exist; the default file need not.
func (a *app) settings() (config.Config, platform.Paths, error) {
	p := a.place()
	load := config.LoadOptional
	if a.configFile != "" || os.Getenv("STEWARD_CONFIG") != "" {
		load = config.Load
	}
	cfg, err := load(p.Config, daemon.CheckPrograms)
	if err != nil {
		return cfg, p, err
	}
	if cfg.Human.Name == "" {
		cfg.Human.Name = platform.Person("Jesse") // the person of protocol 000
	}
	home, _ := os.UserHomeDir()
	if dir := cfg.Supervisor.StateDir; dir != "" && os.Getenv("STEWARD_STATE_DIR") == "" {
		if p.State, err = config.Expand(dir, home, "/"); err != nil {
			return cfg, p, fmt.Errorf("supervisor.state_dir: %w", err)
		}
	}
	if path := cfg.Status.Socket; path != "" && a.socket == "" && os.Getenv("STEWARD_SOCKET") == "" {
		if p.Socket, err = config.Expand(path, home, "/"); err != nil {
			return cfg, p, fmt.Errorf("status.socket: %w", err)
		}
	}
	return cfg, p, nil
}
