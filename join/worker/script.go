package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/livhana/steward/protocol/agentstatus"
)

// unfit says why a script cannot be run now; nil when it can.
func unfit(script string) *agentstatus.TaskError {
	e := &agentstatus.TaskError{Severity: severityError, File: script}
	info, err := os.Stat(script)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = codeNotFound, "the script is not there"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = codePermission, "the script cannot be looked at: permission denied"
	case err != nil:
		e.Code, e.Message = codeExecution, fmt.Sprintf("the script cannot be looked at: %v", bare(err))
	case info.IsDir():
		e.Code, e.Message = codeExecution, "the script is a folder"
	case !info.Mode().IsRegular():
		e.Code, e.Message = codeExecution, "the script is no plain file"
	case info.Mode().Perm()&0o111 == 0:
		e.Code, e.Message = codePermission, "the script is not executable; try: chmod +x "+line(script, 300)
	default:
		return nil
	}
	return e
}

// missingFolder says why a command cannot be run in dir.
func missingFolder(dir string) *agentstatus.TaskError {
	e := &agentstatus.TaskError{Severity: severityError, File: dir}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = codeNotFound, "the working folder is not there"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = codePermission, "the working folder cannot be looked at: permission denied"
	case err != nil:
		e.Code, e.Message = codeExecution, fmt.Sprintf("the working folder cannot be looked at: %v", bare(err))
	case !info.IsDir():
		e.Code, e.Severity, e.Message = codeInvalid, severityFatal, "payload.parameters.working_directory is no folder"
	default:
		return nil
	}
	return e
}

// interpreter returns the program named in a script's #! line, and the line itself; "" without such a line.
func interpreter(script string) (program, first string) {
	f, err := os.Open(script)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	text, _, _ := bytes.Cut(head[:n], []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("#!"))
	if !ok {
		return "", ""
	}
	words := strings.Fields(string(rest))
	if len(words) == 0 {
		return "", string(text)
	}
	return words[0], string(text)
}

// rehearse does a dry run: it describes what would be run, and runs nothing.
func (p *plan) rehearse(g allowedPaths) {
	if !p.runs() {
		return
	}
	metrics := map[string]any{"dry_run": true, "argv": p.argv, "working_directory": p.dir}
	var words string
	switch {
	case len(p.argv) == 0:
		metrics["argv"] = []string{}
		words = fmt.Sprintf("nothing would be run, for no command is set: %s under [worker.commands]", p.name)
	case p.kind != typeExecute:
		words = fmt.Sprintf("would run %s in %s", quoted(p.argv), p.dir)
	default:
		state := "the script is there and executable"
		fault := missingFolder(p.dir)
		if fault == nil {
			fault = unfit(p.argv[0])
		}
		if fault != nil {
			state = "but " + fault.Message
		}
		metrics["executable"] = fault == nil
		words = fmt.Sprintf("would run %s in %s; %s", quoted(p.argv), g.short(p.dir), state)
	}
	p.result = &agentstatus.Result{Status: statusCompleted, Body: agentstatus.ResultBody{Summary: "Dry run: " + line(words, longestMessage), Metrics: metrics}}
}

// quoted formats an argument list so that the reader sees where each argument ends.
func quoted(argv []string) string {
	var b strings.Builder
	for i, arg := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`*?[]{}();&|<>~#!") {
			fmt.Fprintf(&b, "%q", arg)
		} else {
			b.WriteString(arg)
		}
	}
	return b.String()
}
