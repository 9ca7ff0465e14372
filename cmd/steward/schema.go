package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// newSchemaCommand prints the tables by which messages are checked, as JSON Schemas.
func newSchemaCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of a protocol's message; without NAME, list the names",
		Long: "schema prints the JSON Schema (draft 2020-12) by which steward checks a message before it writes it: see steward check.\n" +
			"Readers accept more: other words than the document lists, times in other forms, missing fields.",
		Example:           "  steward schema\n  steward schema envelope/task_assignment >assignment.schema.json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeMessages,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listMessages(a)
			}
			m := daemon.MessageNamed(args[0])
			if m == nil {
				return noMessage("schema", args[0])
			}
			doc, err := m.JSONSchema()
			if err != nil {
				return fmt.Errorf("encode the schema: %w", err)
			}
			return a.Print(json.RawMessage(doc))
		},
	}
}

func listMessages(a *cli.App) error {
	type row struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	}
	var rows []row
	for _, m := range daemon.Messages() {
		rows = append(rows, row{m.Name, m.Title})
	}
	return cli.Tell(a, rows, func(p *terminal.Page, rows []row) {
		for _, r := range rows {
			p.Full("%-28s %s", r.Name, r.Title)
		}
	})
}

func noMessage(command, name string) error {
	return cli.Usagef("%s %s: there is no message of this name; steward schema lists the names", command, terminal.OneWord(name))
}

func completeMessages(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, m := range daemon.Messages() {
		names = append(names, cobra.CompletionWithDesc(m.Name, m.Title))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// maxDraft bounds a draft in bytes. No protocol has a longer message.
const maxDraft = 1 << 20

// addDraft checks one message alone, as a message of the named kind; as "" chooses the kind by the content. It returns the
// kind's name.
func (c *checked) addDraft(arg, as string, in io.Reader) (name string, err error) {
	doc, err := readDraft(arg, in)
	if err != nil {
		return "", cli.Usagef("check: %s: %v", terminal.Clean(arg), err)
	}
	o, err := jsonfile.Parse(doc)
	if err != nil {
		c.Faults = append(c.Faults, protocol.Fault{Path: arg, Problem: err.Error()})
		return as, nil
	}
	m := daemon.MessageNamed(as)
	if m == nil {
		m = daemon.MessageLike(o)
	}
	if m == nil {
		return "", cli.Usagef("check: %s lies in no project, and its content fits no message of a protocol; name the message with --as (steward schema lists the names)",
			terminal.Clean(arg))
	}
	for _, f := range m.Findings(o).About(protocol.Subject{Kind: protocol.KindProject, ID: m.Name}) {
		f.Path = arg
		c.Findings = append(c.Findings, f)
	}
	return m.Name, nil
}

func readDraft(arg string, in io.Reader) ([]byte, error) {
	if arg != "-" {
		st, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !st.Mode().IsRegular() { // a pipe would wait for its writer
			return nil, errors.New("it is not a regular file")
		}
		file, err := os.Open(arg)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	doc, err := io.ReadAll(io.LimitReader(in, maxDraft+1))
	if len(doc) > maxDraft {
		return nil, fmt.Errorf("it has more than %d bytes", maxDraft)
	}
	return doc, err
}
