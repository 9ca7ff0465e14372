package role

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

// longestMessage bounds the task's document in a prompt, in bytes: a system accepts 128 KiB in one argument.
const longestMessage = 64 << 10

// command is the run of a task. A command without {prompt} gets the prompt on its standard input.
func (r *Runner) command(j *taken) worker.Command {
	t := &j.task
	prompt := Prompt(r.o.Program, r.o.Protocol, r.o.Role, r.o.Project, j.note, t)
	c := worker.Command{Task: t.ID, Dir: r.o.Dir, Limit: r.o.Limit, Log: r.o.Log}
	c.Argv, c.Stdin = Fill(r.o.Command, r.o.Project, prompt, t)
	c.Env = append(append([]string{}, r.o.Environment...), "STEWARD_PROTOCOL="+r.o.Protocol, "STEWARD_ROLE="+r.o.Role, "STEWARD_AGENT="+r.o.Role)
	return c
}

// Fill replaces the placeholders of a command. input is the prompt if no placeholder takes it. A program with a relative
// path is one of the project.
func Fill(command []string, project, prompt string, t *protocol.Assignment) (argv []string, input []byte) {
	replace := strings.NewReplacer("{prompt}", prompt, "{task}", t.ID, "{file}", t.Path, "{project}", project)
	input = []byte(prompt)
	for _, arg := range command {
		if strings.Contains(arg, "{prompt}") {
			input = nil
		}
		argv = append(argv, strings.ReplaceAll(replace.Replace(arg), "\x00", ""))
	}
	if strings.ContainsRune(argv[0], filepath.Separator) && !filepath.IsAbs(argv[0]) {
		argv[0] = filepath.Join(project, argv[0])
	}
	return argv, input
}

// Prompt tells an agent in plain English what its task is, and how to report. program is the path of steward: an agent's shell
// may search other folders for programs than this process.
func Prompt(program, protocolName, role, project, note string, t *protocol.Assignment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are the agent %s in the project %s. Carry out the one task below, then end.\n\n", role, project)
	fmt.Fprintf(&b, "Task: %s\nTitle: %s\n", t.ID, terminal.Clean(t.Title))
	if t.Type != "" || t.Source != "" {
		fmt.Fprintf(&b, "Kind: %s, from %s\n", cmp.Or(terminal.Clean(t.Type), "task"), cmp.Or(terminal.Clean(t.Source), "an unnamed sender"))
	}
	if t.Attempt > 1 {
		fmt.Fprintf(&b, "This is attempt %d: an earlier run did not complete it. First check what is already done.\n", t.Attempt)
	}
	if note != "" {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	if t.Path != "" {
		fmt.Fprintf(&b, "File: %s\n", t.Path)
	}
	if n := len(t.Message); n > 0 {
		fmt.Fprintf(&b, "\nThe message (protocol %s):\n%s\n", protocolName, strings.ToValidUTF8(string(t.Message[:min(n, longestMessage)]), ""))
		if n > longestMessage {
			b.WriteString("[the rest is in the file]\n")
		}
	}
	for _, m := range t.Feedback {
		fmt.Fprintf(&b, "\nA later message about it, which you must heed:\n%s\n", strings.ToValidUTF8(string(m[:min(len(m), longestMessage/4)]), ""))
	}
	id, program := terminal.ShellQuote(t.ID), terminal.ShellQuote(program)
	b.WriteString("\nHow to report, with these commands:\n")
	for _, line := range []string{
		"progress " + id + " 40 \"what you do now\"", "done " + id + " --summary \"what was done\"", "fail " + id + " --message \"why it cannot be done\"",
		"block " + id + " \"a question that only a person can decide\" --option A --option B"} {
		b.WriteString("  " + program + " task " + line + "\n")
	}
	b.WriteString("`" + program + " task --help` has more of them. Without a report, your exit code and your last message are the report.\n")
	return b.String()
}
