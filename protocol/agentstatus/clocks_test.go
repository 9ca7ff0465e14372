package agentstatus

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// stating replaces a time in a document.
func stating(doc, key, at string) string {
	return regexp.MustCompile(`"`+key+`": *"[^"]*"`).ReplaceAllString(doc, `"`+key+`": "`+at+`"`)
}

// Times do not depend on how a program writes them. A logged start and reported progress that steward sees arrive get
// the time of that moment. A request and a result whose times have no zone get the time of their files.
func TestTaskByAnyClock(t *testing.T) {
	const slack = 2*time.Minute + 5*time.Second
	for _, pen := range protocoltest.Pens() {
		t.Run(pen.Name, func(t *testing.T) {
			s := newSite(t, around)
			near := func(what string, at time.Time) {
				t.Helper()
				if d := at.Sub(s.Now); d.Abs() > slack {
					t.Errorf("%s: %v off", what, d)
				}
			}
			s.log(strings.Replace(started(s.Now, nanos), taskID, "another", 1))
			s.look()
			s.Write(requestPath, stating(requestText, "created_at", pen.Text(s.Now)))
			s.look()
			s.log(strings.Replace(started(s.Now, nanos), s.Now.UTC().Format(nanos), pen.Text(s.Now), 1))
			k := only(t, s.look())
			if k.Named != "task_started" {
				t.Errorf("named %q", k.Named)
			}
			near("started", k.Started)
			if pen.Zone != nil && pen.Skew == 0 {
				near("created", k.Created)
			}
			s.Write(progressPath(), `{"task_id":"`+taskID+`","progress_percent":40,"current_step":"x","last_update":"`+pen.Text(s.Now)+`"}`)
			near("progress", only(t, s.look()).Progress.At)
			s.Write(resultPath, stating(resultText, "completed_at", pen.Text(s.Now)))
			if k = only(t, s.look()); pen.Zone != nil {
				near("completed", k.Outcome.At)
			}
		})
	}
}

// A start that was logged before the first scan is neither in the future nor older than it really is.
func TestStartBeforeOurTime(t *testing.T) {
	for _, pen := range protocoltest.Zones() {
		l, now := newLog(), time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
		line := started(now, nanos)
		l.take([]byte(strings.Replace(line, now.Format(nanos), pen.Text(now.Add(-time.Hour)), 1)), now)
		if at := l.tasks[taskID].started; at.After(now) || at.Before(now.Add(-time.Hour)) {
			t.Errorf("%s: started %v before now", pen.Name, now.Sub(at))
		}
	}
}
