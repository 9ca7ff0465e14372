package supervisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

func all(*supervisor.Entry) bool { return true }

func openJournal(t *testing.T) (*supervisor.Journal, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := supervisor.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, path
}

func texts(entries []supervisor.Entry) string {
	var list []string
	for _, e := range entries {
		list = append(list, e.Text)
	}
	return strings.Join(list, " ")
}

func write(t *testing.T, j *supervisor.Journal, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := j.Write(supervisor.Entry{At: midnight, Kind: "note", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJournalGivesTheNewestThatMatch(t *testing.T) {
	j, path := openJournal(t)
	write(t, j, "a", "b", "c", "d")
	for n, want := range map[int]string{0: "", 1: "d", 3: "b c d", 9: "a b c d"} {
		got, err := supervisor.JournalAt(path).Read(n, all)
		if err != nil || texts(got) != want {
			t.Errorf("the last %d: %q, %v; want %q", n, texts(got), err, want)
		}
	}
	got, err := j.Read(2, func(e *supervisor.Entry) bool { return e.Text < "c" })
	if err != nil || texts(got) != "a b" {
		t.Errorf("%q, %v", texts(got), err)
	}
}

func TestJournalNamesItsSubject(t *testing.T) {
	j, path := openJournal(t)
	subject := protocol.Subject{Project: "demo", Protocol: "agentstatus", Kind: protocol.KindTask, ID: "t1"}
	if err := j.Write(supervisor.Entry{At: midnight.In(time.FixedZone("", 3600)), Kind: "note", Subject: subject}); err != nil {
		t.Fatal(err)
	}
	write(t, j, "of nothing")
	got, err := supervisor.JournalAt(path).Read(2, all)
	if err != nil || got[0].About != "demo:task/t1" || got[1].About != "" || !got[0].At.Equal(midnight) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestJournalSurvivesTornLines: a crash in the middle of a line costs that line, not the next.
func TestJournalSurvivesTornLines(t *testing.T) {
	j, path := openJournal(t)
	write(t, j, "before")
	j.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"at":"2026-01-01T00:00:00Z","kind":"no`)
	f.Close()
	j, err = supervisor.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	write(t, j, "after")
	got, err := supervisor.JournalAt(path).Read(10, all)
	if err != nil || texts(got) != "before after" {
		t.Errorf("%q, %v", texts(got), err)
	}
}

// TestJournalRotates: five files of ten mebibytes at most, and reading goes through all of them.
func TestJournalRotates(t *testing.T) {
	j, path := openJournal(t)
	long := strings.Repeat("x", 1<<20)
	for i := range 70 {
		write(t, j, fmt.Sprintf("%d %s", i, long))
	}
	files, _ := filepath.Glob(path + "*")
	if len(files) != 5 {
		t.Fatalf("%d files: %v", len(files), files)
	}
	for _, file := range files {
		if st, err := os.Stat(file); err != nil || st.Size() > 10<<20 {
			t.Errorf("%s: %d bytes, %v", file, st.Size(), err)
		}
	}
	got, err := j.Read(30, all)
	if err != nil || len(got) != 30 || !strings.HasPrefix(got[0].Text, "40 ") || !strings.HasPrefix(got[29].Text, "69 ") {
		t.Errorf("%d entries, %v", len(got), err)
	}
}

func TestJournalReadsWhatIsNotThere(t *testing.T) {
	got, err := supervisor.JournalAt(filepath.Join(t.TempDir(), "none")).Read(5, all)
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestFollowNeverHoldsTheWriterUp: one that does not keep up loses entries.
func TestFollowNeverHoldsTheWriterUp(t *testing.T) {
	j, _ := openJournal(t)
	entries, stop := j.Follow()
	for i := range 1000 {
		write(t, j, fmt.Sprint(i))
	}
	if e := <-entries; e.Text != "0" {
		t.Errorf("the first is %q", e.Text)
	}
	stop()
	for len(entries) > 0 {
		<-entries
	}
	write(t, j, "unseen")
	if len(entries) != 0 {
		t.Error("an entry came after the end")
	}
}

func FuzzReadJournal(f *testing.F) {
	f.Add([]byte("{\"at\":\"2026-01-01T00:00:00Z\",\"kind\":\"note\",\"text\":\"a\"}\n"))
	f.Add([]byte("{\"at\":\n\x00\xff{}\n"))
	f.Add([]byte("{}\n{\"change\":{\"until\":1}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := supervisor.OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		write(t, j, "after")
		got, err := j.Read(1, all)
		if err != nil || texts(got) != "after" {
			t.Errorf("%q, %v", texts(got), err)
		}
	})
}
