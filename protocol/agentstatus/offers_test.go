package agentstatus

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// open lists the ids that a client finds open, in order.
func (c *crew) open(client *Client) string {
	c.t.Helper()
	list, err := client.Open(c.t.Context(), codex, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	var ids []string
	for _, w := range list {
		ids = append(ids, w.TaskID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (c *crew) path(file string) string {
	return filepath.Join(c.dir, filepath.FromSlash(Base), filepath.FromSlash(file))
}

func (c *crew) do(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestOpenFollowsEveryChange: a Client that calls Open repeatedly finds the same as a new Client, whatever others
// have done to the task meanwhile.
func TestOpenFollowsEveryChange(t *testing.T) {
	c := newCrew(t)
	a, b := c.submit(ask(numbered(1))), c.submit(ask(numbered(2)))
	both, old := a+" "+b, c.client()
	request := c.path(taskFile(a, requestExt))
	write := func(file, text string) { c.do(os.WriteFile(c.path(file), []byte(text), 0o644)) }
	claim := Claim{Agent: codex, Worker: worker(1), Mark: "m"}
	work := func(id string) Work {
		list, err := c.client().Open(t.Context(), codex, c.now)
		c.do(err)
		return list[slices.IndexFunc(list, func(w Work) bool { return w.TaskID == id })]
	}
	steps := []struct {
		name string
		do   func()
		want string
	}{
		{"nothing", func() {}, both},
		{"another claims it", func() { c.do(c.client().Claim(t.Context(), work(a), claim, c.now)) }, b},
		{"and gives it back", func() { c.do(c.client().Unclaim(t.Context(), a, c.now)) }, both},
		{"it is held", func() { c.do(os.Rename(request, c.path(taskFile(a, heldExt)))) }, b},
		{"and released", func() { c.do(os.Rename(c.path(taskFile(a, heldExt)), request)) }, both},
		{"a client without claims begins it", func() { write(taskFile(a, progressExt), `{"task_id":"`+a+`","progress_percent":5}`) }, b},
		{"which an earlier run had left", func() {
			past := time.Now().Add(-time.Hour)
			c.do(os.Chtimes(c.path(taskFile(a, progressExt)), past, past))
		}, both},
		{"and that is written again", func() { write(taskFile(a, progressExt), `{"task_id":"`+a+`","progress_percent":6}`) }, b},
		{"its progress goes", func() { c.do(os.Remove(c.path(taskFile(a, progressExt)))) }, both},
		{"it is for another agent now", func() {
			text, err := os.ReadFile(request)
			c.do(err)
			c.do(os.WriteFile(request, []byte(strings.ReplaceAll(string(text), codex, "someone-else")), 0o644))
		}, b},
		{"and back, in place", func() {
			text, err := os.ReadFile(request)
			c.do(err)
			c.do(os.WriteFile(request, []byte(strings.ReplaceAll(string(text), "someone-else", codex)), 0o644))
		}, both},
		{"it cannot be read", func() { c.do(os.Truncate(request, 10)) }, b},
		{"it is written anew", func() { c.do(os.Remove(request)); c.submit(ask(a)) }, both},
		{"a retry of it is on record", func() {
			c.do(os.MkdirAll(c.path(attemptsDir), 0o755))
			write(attemptFile(a, 1, "sched"), `{"task_id":"`+a+`","n":1,"action":"retry","result_sum":"x"}`)
		}, b},
		{"and is carried out", func() { write(attemptFile(a, 1, "result"), `{}`) }, both},
		{"it has a result", func() { write(taskFile(a, resultExt), `{"task_id":"`+a+`","status":"completed"}`) }, b},
		{"that goes", func() { c.do(os.Remove(c.path(taskFile(a, resultExt)))) }, both},
		{"it ended and was archived, the request came back with its folder's time", func() {
			c.do(os.MkdirAll(c.path(archiveDir), 0o755))
			c.do(os.Rename(request, c.path(archivedFile(a, requestExt))))
			write(archivedFile(a, resultExt), `{"task_id":"`+a+`","status":"completed"}`)
		}, b},
	}
	for _, s := range steps {
		s.do()
		c.now = c.now.Add(time.Minute)
		for _, when := range []string{"at once", "and again"} {
			got, fresh := c.open(old), c.open(c.client())
			if got != s.want || fresh != s.want {
				t.Fatalf("%s (%s): the old client finds %q, a new one %q, want %q", s.name, when, got, fresh, s.want)
			}
		}
	}
}

// TestOpenGivesTheRequestAsItIs: Open returns the present request, never an earlier version.
func TestOpenGivesTheRequestAsItIs(t *testing.T) {
	c := newCrew(t)
	a := c.submit(ask(numbered(1)))
	client := c.client()
	file := c.path(taskFile(a, requestExt))
	for i := range 4 {
		c.now = c.now.Add(time.Minute)
		list, err := client.Open(t.Context(), codex, c.now)
		text, _ := os.ReadFile(file)
		if err != nil || len(list) != 1 || list[0].Sum != string(jsonfile.SumOf(text)) || string(list[0].Raw) != string(text) {
			t.Fatalf("round %d: %d tasks (%v), or not the request that is there", i, len(list), err)
		}
		if i%2 == 1 { // in place, with the same length
			c.do(os.WriteFile(file, []byte(strings.NewReplacer("/bin/true", "/bin/eurt", "/bin/eurt", "/bin/true").Replace(string(text))), 0o644))
			c.now = c.now.Add(time.Minute)
			if err := client.Claim(t.Context(), list[0], Claim{Agent: codex, Mark: "m"}, c.now); !errors.Is(err, ErrTaken) {
				t.Fatalf("round %d: the request that stood before was claimed: %v", i, err)
			}
		}
	}
}

// BenchmarkOpen500 is a worker's Open on 500 open requests, one of which was claimed or given back since the last
// call.
func BenchmarkOpen500(b *testing.B) {
	dir := b.TempDir()
	p := New(dir, Options{})
	defer p.Close()
	now := time.Now().UTC()
	if err := p.Prepare(b.Context(), boot(livhana, 1, now)); err != nil {
		b.Fatal(err)
	}
	client := Connect(dir, ClientOptions{})
	defer client.Close()
	for i := range 500 {
		if _, err := client.Submit(b.Context(), ask(numbered(i)), now); err != nil {
			b.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	open := func(want int) []Work {
		list, err := client.Open(b.Context(), codex, now)
		if err != nil || len(list) != want {
			b.Fatalf("%d tasks, want %d: %v", len(list), want, err)
		}
		return list
	}
	open(500)
	b.ReportAllocs()
	claimed := ""
	for b.Loop() {
		b.StopTimer()
		if claimed == "" {
			w := open(500)[0]
			claimed = w.TaskID
			if err := client.Claim(b.Context(), w, Claim{Agent: codex, Mark: "m"}, now); err != nil {
				b.Fatal(err)
			}
		} else if err := client.Unclaim(b.Context(), claimed, now); err == nil {
			claimed = ""
		}
		want := 500
		if claimed != "" {
			want--
		}
		b.StartTimer()
		open(want)
	}
}
