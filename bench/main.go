// Command bench measures what steward promises, with the built program and from outside, and prints the figures
// beside their targets.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// measurement is one theme of the table. One that fails leaves a row that says why, and the others go on.
type measurement struct {
	name string
	run  func(*bench) ([]row, error)
}

var measurements = []measurement{
	{"held", measureHeld},
	{"exit", measureExit},
	{"keep", measureKeep},
	{"transient", measureTransient},
	{"work", measureWork},
	{"popup", measurePopup},
	{"voice", measureVoice},
	{"press", measurePress},
	{"lost", measureLostEvents},
	{"retry", measureRetry},
	{"storm", measureStorm},
	{"micro", measureMicro},
	{"idle", measureIdle},
	{"program", measureProgram},
	{"history", measureHistory},
	{"scale", measureScale},
	{"boot", measureBoot},
	{"herd", measureHerd},
	{"proofs", measureProofs},
}

// bench is what all measurements share.
type bench struct {
	steward string // absolute path of the program under test
	repo    string
	dir     string // scratch; its path is short, for sockets lie in it
	log     io.Writer

	finished finished // shared by those that need many
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	program := flag.String("steward", "./steward", "the built `PROGRAM` to measure")
	results := flag.String("results", "", "also save the table in this `DIR`")
	only := flag.String("only", "", "measure only these, by `NAME,NAME`")
	list := flag.Bool("list", false, "list the names and stop")
	page := flag.String("publish", "", "print the table of docs/performance.md from this saved `FILE` and stop")
	flag.Parse()
	if *page != "" {
		return publish(*page)
	}
	if *list {
		for _, m := range measurements {
			fmt.Println(m.name)
		}
		return nil
	}
	b := &bench{log: os.Stderr}
	var err error
	if b.steward, err = filepath.Abs(*program); err != nil {
		return err
	}
	if _, err := os.Stat(b.steward); err != nil {
		return fmt.Errorf("%w (build it first: make build)", err)
	}
	if b.repo, err = os.Getwd(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "stb"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.finished.dir = filepath.Join(b.dir, "finished")
	started := time.Now()
	machine := describeMachine(b.steward)
	rows := b.measureAll(strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }))
	text := formatTable(rows) + "\n" + machine + describeLoad(started)
	fmt.Print(text)
	if *results == "" {
		return nil
	}
	return save(*results, b.steward, started, text)
}

func (b *bench) measureAll(only []string) []row {
	var rows []row
	for _, m := range measurements {
		if len(only) > 0 && !slices.Contains(only, m.name) {
			continue
		}
		start := time.Now()
		got, err := m.run(b)
		rows = append(rows, got...)
		if err != nil {
			rows = append(rows, absent(m.name, "", fmt.Sprintf("not measured: %v", err)))
		}
		fmt.Fprintf(b.log, "bench: %s took %.1f s\n", m.name, time.Since(start).Seconds())
	}
	return rows
}

func save(dir, program string, at time.Time, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := at.UTC().Format("2006-01-02") + "-" + shortSum(program) + ".txt"
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}
