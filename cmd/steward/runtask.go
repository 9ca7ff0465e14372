package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	joinrun "github.com/livhana/steward/join/run"
)

// runTaskCommand is started by steward itself, as the shim process between a worker and a command (join/run).
func (a *app) runTaskCommand() *cobra.Command {
	return &cobra.Command{Use: "run-task", Hidden: true, Short: "Run one command as a tree of processes that ends as one", RunE: func(*cobra.Command, []string) error {
		return joinrun.Shim(os.Stdin, a.out, time.Now)
	}}
}
