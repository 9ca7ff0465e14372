package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newConfigCommand(a *cli.App) *cobra.Command {
	var check string
	var defaults bool
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, check a file, or print the commented defaults",
		Long: "config prints the settings in force: the defaults with your file over them. --defaults prints the commented file of all\n" +
			"defaults, which is the reference; --check reports everything that is wrong with a file, and names project folders that are\n" +
			"not there.",
		Example: "  steward config --defaults > ~/.config/steward/config.toml\n  steward config --check ~/.config/steward/config.toml",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case check != "" && defaults:
				return cli.Usagef("config: use --check or --defaults, not both")
			case check != "":
				return checkConfig(a, check)
			case defaults && a.Output == "json":
				return a.Print(settingsOf(config.Defaults()))
			case defaults:
				return a.Write(config.DefaultsText())
			}
			return printConfig(a)
		},
	}
	c.Flags().StringVar(&check, "check", "", "check this `FILE` and print nothing else")
	c.Flags().BoolVar(&defaults, "defaults", false, "print the defaults with their comments")
	return c
}

func printConfig(a *cli.App) error {
	cfg, _, err := a.Settings()
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return a.Print(settingsOf(cfg))
	}
	doc, err := cfg.TOML()
	if err != nil {
		return err
	}
	return a.Write(string(doc))
}

// fileCheck is the JSON output of config --check.
type fileCheck struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Problems []fileProblem `json:"problems"`
	Notes    []string      `json:"notes"` // valid settings that may be typing errors
}

type fileProblem struct {
	Line int    `json:"line"` // 0: not tied to a single line
	Text string `json:"text"`
}

func checkConfig(a *cli.App, file string) error {
	cfg, err := config.Load(file, daemon.CheckPrograms)
	notes := notesOn(cfg)
	if a.Output == "json" {
		doc := fileCheck{File: file, OK: err == nil, Problems: problemsOf(err), Notes: notes}
		return errors.Join(err, a.Print(doc))
	}
	if err != nil {
		return err
	}
	text := terminal.Clean(file) + ": fine\n"
	for _, note := range notes {
		text += "note: " + terminal.Clean(note) + "\n"
	}
	return a.Write(text)
}

// notesOn lists the lines without effect, and the project folders that cannot be used now. The file is still valid: a disk
// may be mounted later.
func notesOn(cfg config.Config) []string {
	notes := []string{}
	for _, p := range cfg.Gone {
		notes = append(notes, fmt.Sprintf("line %d: %s", p.Line, p.Text))
	}
	home, _ := os.UserHomeDir()
	cwd, _ := os.Getwd()
	rows, twins := daemon.Distinct(cfg.Projects, home, cwd)
	cfg.Projects = rows
	refs, _ := cfg.ProjectList(home, cwd)
	for _, ref := range refs {
		if err := daemon.FolderTrouble(ref.Path); err != nil {
			notes = append(notes, fmt.Sprintf("project %s: %s: %v; steward waits for it", ref.Name, ref.Path, err))
		}
	}
	for _, t := range twins {
		notes = append(notes, t.String())
	}
	return notes
}

// problemsOf converts the problems of a configuration for the JSON output.
func problemsOf(err error) []fileProblem {
	list := []fileProblem{}
	for _, p := range config.Problems(err) {
		list = append(list, fileProblem{p.Line, p.Text})
	}
	return list
}

// settingsOf converts the configuration for JSON, with the keys of the file and durations in seconds.
func settingsOf(cfg config.Config) any { return setting(reflect.ValueOf(cfg)) }

func setting(v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.Seconds()
	}
	if size, ok := v.Interface().(capacity.Size); ok {
		return size.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		return table(v)
	case reflect.Slice:
		list := make([]any, 0, v.Len())
		for _, item := range v.Seq2() {
			list = append(list, setting(item))
		}
		return list
	case reflect.Map:
		named := map[string]any{}
		for key, item := range v.Seq2() {
			named[key.String()] = setting(item)
		}
		return named
	}
	return v.Interface()
}

// table maps a struct's fields by their keys; the fields of an embedded struct are inlined.
func table(v reflect.Value) map[string]any {
	t := map[string]any{}
	for field, value := range v.Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		switch {
		case field.Anonymous:
			maps.Copy(t, table(value))
		case key != "" && key != "-":
			t[key] = setting(value)
		}
	}
	return t
}
