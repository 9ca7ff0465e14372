// By default the runtime polls once a second whether it may use more processors. An idle steward must sleep.
//go:debug updatemaxprocs=0

// Command steward supervises the AI coding agents that work on a machine.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/livhana/steward/cmd/steward/locks"
	"github.com/livhana/steward/cmd/steward/tasks"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/demo"
	"github.com/livhana/steward/cmd/steward/holds"
	servicecmd "github.com/livhana/steward/cmd/steward/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process exit. An interrupt ends the context; a second interrupt ends the process.
func run(args []string, out, errOut io.Writer) int {
	a := &cli.App{Out: out, Err: errOut, Version: version()}
	root := newRootCommand(a)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var q cli.Quiet
	if errors.As(err, &q) {
		return q.Code
	}
	cli.PrintError(errOut, err, cli.AsksJSON(args))
	return cli.ExitCode(err)
}

func newRootCommand(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:           "steward",
		Short:         "Looks after the AI coding agents that work on this machine",
		Long:          "steward looks after the AI coding agents that work side by side on this machine: it sets up their shared\nfolders, holds tasks back while the machine is too full, notices agents that die, retries what failed by rule,\nand notifies you when you are needed. It reads and writes the agents' own files; the agents need not change.",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if a.Output != "text" && a.Output != "json" {
				return cli.Usagef("-o %s: use text or json", terminal.OneWord(a.Output))
			}
			if err := cli.EmptyFlags(c); err != nil {
				return err
			}
			if holds.Releases(c) {
				holds.ReleaseWhile(a, c)
			}
			return nil
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&a.ConfigFile, "config", "", "configuration `FILE` (default: the platform's place)")
	f.StringVar(&a.Socket, "socket", "", "the daemon's socket `PATH`")
	f.StringVarP(&a.Output, "output", "o", "text", "text or json")
	f.BoolVar(&a.NoColor, "no-color", false, "print without colour")
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(newRunCommand(a), newPlanCommand(a), newCheckCommand(a), newSchemaCommand(a), newBootCommand(a), demo.NewCommand(a, func(c *cobra.Command, project, protocolName string, b protocol.Boot) error {
		return bootAgent(a, c, project, protocolName, b)
	}))
	root.AddCommand(newViewCommands(a)...)
	root.AddCommand(newOperatorCommands(a)...)
	root.AddCommand(newConfigCommand(a), newVersionCommand(a), servicecmd.NewCommand(a), newDoctorCommand(a))
	root.AddCommand(newRunTaskCommand(a), newExecCommand(a))
	root.AddCommand(tasks.NewCommand(a))
	root.AddCommand(newWorkerCommand(a))
	root.AddCommand(locks.NewCommand(a))
	root.SetOut(a.Out) // cobra's own commands copy the output when they are created
	root.SetErr(a.Err)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cli.CheckUsage(root)
	return root
}

// release is the version of a released binary, set by the linker: -X main.release=1.2.3.
var release string

// version is the release, or else the build information recorded by the Go toolchain.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return "dev" + revision + dirty
}

func newVersionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  steward version -o json",
		RunE: func(*cobra.Command, []string) error {
			doc := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{a.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.Report(doc, "steward %s (%s, %s/%s)", doc.Version, doc.Go, doc.OS, doc.Arch)
		},
	}
}
