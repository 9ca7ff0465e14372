package tasks

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

func TestWaitScreen(t *testing.T) {
	var out bytes.Buffer
	s := &waitScreen{out: &out, width: 40, color: true, started: time.Now()}
	d := taskDetail(40)
	s.show(newsOf("codex works on it", d, false))
	s.show(newsOf("40 %", d, true))
	s.end()
	s.end()
	bar := clearLine + "\x1b[32m[###......]  40 %" // the bar yields to the width
	if got := out.String(); strings.Count(got, bar) != 2 || !strings.HasPrefix(got, "codex works on it\n") || strings.Contains(got, "40 %\n") || !strings.HasSuffix(got, "m"+clearLine) {
		t.Errorf("a terminal gets %q", got)
	}
	out.Reset()
	s = &waitScreen{out: &out}
	s.show(newsOf("codex works on it", d, false))
	s.show(newsOf("40 %", d, true))
	s.show(newsOf("", d, true))
	s.end()
	if got := out.String(); got != "codex works on it\n40 %\n" {
		t.Errorf("a file gets %q", got)
	}
}

func taskDetail(percent float64) agentstatus.Detail {
	return agentstatus.Detail{State: agentstatus.StateRunning, Progress: &agentstatus.TaskProgress{Percent: percent}}
}

func newsOf(text string, d agentstatus.Detail, progress bool) task.News {
	return task.News{Text: text, Detail: d, Progress: progress, Now: time.Now()}
}
