package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// messageKeys holds the flags that set parts of a message of the protocols 001 to 004.
type messageKeys struct {
	set      []string
	document string
}

func (m *messageKeys) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&m.set, "set", nil, "a key of the message, by its path with dots: `PATH=VALUE`; JSON where it parses, else text (may be repeated)")
	c.Flags().StringVar(&m.document, "document", "", "a `FILE` with the whole message; - for standard input")
}

// read returns the keys of --set, and the document.
func (m *messageKeys) read() (fields map[string]any, document []byte, err error) {
	set, err := task.ParseParameters("--set", m.set)
	if err != nil {
		return nil, nil, err
	}
	fields = map[string]any{}
	for path, value := range set {
		if raw, ok := value.(json.RawMessage); ok {
			value = decode(raw)
		}
		fields[path] = value
	}
	if m.document == "" {
		return fields, nil, nil
	}
	if document, err = input(m.document); err != nil {
		err = fmt.Errorf("read the document: %w", err)
	}
	return fields, document, err
}

// alone refuses flags and words that would have no effect because --document is the whole message.
func (m *messageKeys) alone(c *cobra.Command, doing string, words []string, flags ...string) error {
	if m.document == "" {
		return nil
	}
	var idle []string
	for _, flag := range flags {
		if c.Flags().Changed(flag) {
			idle = append(idle, "--"+flag)
		}
	}
	if len(words) > 0 {
		idle = append(idle, "the text")
	}
	if len(idle) == 0 {
		return nil
	}
	return cli.Usagef("%s: --document is the whole message: leave out %s, or write it into the document; --set sets one key of it", doing, strings.Join(idle, ", "))
}

// decode decodes a JSON value; an integer keeps all its digits.
func decode(raw json.RawMessage) (v any) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n
	}
	_ = json.Unmarshal(raw, &v) // it is valid
	return v
}

// instructions are the flags of submit that protocol 000 has no place for.
type instructions struct {
	messageKeys
	kind, title, text, spec string
	requirements, criteria  []string
}

func (s *submission) instructionFlags(c *cobra.Command) {
	i, f := &s.instructions, c.Flags()
	f.StringVar(&i.kind, "type", "", "the message's `TYPE`, where From and To do not imply it")
	f.StringVar(&i.title, "title", "", "the task in a few words: `TEXT` (default: the first line of the instructions)")
	f.StringVar(&i.text, "text", "", "the instructions: `TEXT`; - for standard input")
	f.StringVar(&i.spec, "spec", "", "handoffs: the specification, a `FILE`")
	f.StringArrayVar(&i.requirements, "requirement", nil, "envelope: a requirement, as `TEXT` (may be repeated)")
	f.StringArrayVar(&i.criteria, "criterion", nil, "envelope: an acceptance criterion, as `TEXT` (may be repeated)")
	i.messageKeys.flags(c)
}

// send submits a task in one of the protocols 001 to 004.
func (s *submission) send(a *cli.App, c *cobra.Command, dir, name string, words []string) error {
	if err := submitFits.check(c, name, submitting); err != nil {
		return err
	}
	if c.ArgsLenAtDash() >= 0 {
		return cli.Usagef("%s: -- COMMAND belongs to protocol agentstatus; in %s the task is its text", submitting, name)
	}
	if err := s.alone(c, submitting, words, "id", "priority", "text", "title"); err != nil {
		return err
	}
	o, err := s.orderFor(c, words)
	if err != nil {
		return taskError(err, submitting)
	}
	p, err := participate(a, dir, name, submitting)
	if err != nil {
		return err
	}
	defer p.Close()
	ctx := c.Context()
	if o.After, err = p.full(ctx, s.after); err != nil {
		return taskError(err, submitting)
	}
	r, err := p.Submit(ctx, o, time.Now())
	if err != nil {
		return taskError(err, submitting)
	}
	if r.Note != "" {
		fmt.Fprintln(a.Err, "steward: note: "+terminal.Clean(r.Note))
	}
	if s.wait {
		if a.Output == "text" {
			fmt.Fprintln(a.Err, "task "+terminal.Clean(r.ID))
		}
		return p.await(ctx, r.ID, 0)
	}
	return a.Report(r, "%s", terminal.Clean(r.ID))
}

// full completes abbreviated ids of tasks that a new one comes after.
func (p *participant) full(ctx context.Context, ids []string) (all []string, err error) {
	for _, id := range ids {
		t, err := p.find(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("--after %s: %w", id, err)
		}
		all = append(all, t.ID)
	}
	return all, nil
}

// orderFor is the order that the command line describes. Flags for keys of the message become fields, which --set overrides.
func (s *submission) orderFor(c *cobra.Command, words []string) (protocol.Order, error) {
	i := &s.instructions
	o := protocol.Order{ID: s.order.ID, Type: i.kind, Title: i.title, Text: i.text, Priority: s.order.Priority}
	if c.Flags().Changed("to") {
		o.To = s.order.To
	}
	if o.From = role("", ""); c.Flags().Changed("from") {
		o.From = s.order.From
	}
	set, document, err := i.read()
	if err != nil {
		return o, err
	}
	o.Document, o.Fields = document, map[string]any{}
	switch {
	case len(words) > 0 && o.Text != "":
		return o, cli.Usagef("%s: the instructions are given twice; use --text, or put them at the end", submitting)
	case len(words) > 0:
		o.Text = strings.Join(words, " ")
	case o.Text == "-":
		raw, err := io.ReadAll(io.LimitReader(os.Stdin, maxInput))
		if err != nil {
			return o, fmt.Errorf("read the instructions: %w", err)
		}
		o.Text = strings.TrimSpace(string(raw))
	}
	i.merge(o.Text)
	first, _, _ := strings.Cut(o.Text, "\n")
	o.Title, o.Text = cmp.Or(o.Title, first), cmp.Or(o.Text, o.Title)
	for key, list := range map[string][]string{"requirements": i.requirements, "acceptance_criteria": i.criteria, "files_to_review": s.order.Read, "filesToCreate": s.order.Artifacts} {
		for _, text := range list {
			all, _ := o.Fields[key].([]any)
			o.Fields[key] = append(all, text)
		}
	}
	if i.spec != "" {
		o.Fields["context.spec"] = i.spec
	}
	for key, value := range set {
		o.Fields[key] = value
	}
	return o, nil
}

// merge puts the text's own requirements and criteria (its lines that begin with ✓) before those of the flags, which would
// replace them.
func (i *instructions) merge(text string) {
	var requirements, criteria []string
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case strings.HasPrefix(strings.TrimLeft(line, "-*• "), "✓"):
			criteria = append(criteria, strings.TrimLeft(line, "-*• "))
		default:
			requirements = append(requirements, line)
		}
	}
	if len(i.requirements) > 0 {
		i.requirements = append(requirements, i.requirements...)
	}
	if len(i.criteria) > 0 {
		i.criteria = append(criteria, i.criteria...)
	}
}
