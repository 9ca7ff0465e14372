package protocoltest

import (
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// answers: an operator's answer is written once, at any time, and only about subjects that the protocol supports; its
// text cannot break a file. An adapter declares by its cases what it can answer.
func (s Suite) answers(t *testing.T, c *Case) {
	t.Run("once whatever the hour", func(t *testing.T) { s.answerLater(t, c) })
	t.Run("no answer", func(t *testing.T) { s.answerNothing(t, c) })
	t.Run("about something else", func(t *testing.T) { s.answerElsewhere(t, c) })
	t.Run("any words", func(t *testing.T) { s.answerInAnyWords(t, c) })
}

// answerLater: an answer that steward may not have written is written again, by another process, at another time.
func (s Suite) answerLater(t *testing.T, c *Case) {
	b, change := s.answered(t, c)
	once := tree(t, b.dir)
	for _, late := range []time.Duration{time.Second, time.Hour, 48 * time.Hour} {
		if err := s.Open(t, b.dir).Apply(t.Context(), change, b.now.Add(late)); err != nil {
			t.Errorf("apply %v later: %v", late, err)
		}
	}
	same(t, "applied again later", once, tree(t, b.dir))
}

// answered is a project in which the case's change has been made.
func (s Suite) answered(t *testing.T, c *Case) (*bench, protocol.Change) {
	t.Helper()
	b, change := s.judged(t, c)
	if change.Answer == nil {
		t.Fatal("the case's change has no Answer")
	}
	if err := b.a.Apply(t.Context(), change, b.now); err != nil {
		t.Fatalf("apply: %v", err)
	}
	return b, change
}

func (s Suite) answerNothing(t *testing.T, c *Case) {
	b, change := s.judged(t, c)
	change.Answer = nil
	before := tree(t, b.dir)
	if err := b.a.Apply(t.Context(), change, b.now); err == nil || errors.Is(err, protocol.ErrConflict) {
		t.Errorf("apply without an answer: %v, want an error that no other scan cures", err)
	}
	same(t, "without an answer", before, tree(t, b.dir))
}

// answerElsewhere: a subject kind without a case is refused, but not as a conflict: the caller would retry a conflict
// forever.
func (s Suite) answerElsewhere(t *testing.T, c *Case) {
	shown := map[protocol.Kind]bool{}
	for i := range s.Cases {
		if other := &s.Cases[i]; other.Verb == protocol.VerbAnswer {
			b := s.lay(t, other)
			shown[other.Change(b.scan(t), b.now).Subject.Kind] = true
		}
	}
	b, change := s.judged(t, c)
	before := tree(t, b.dir)
	for _, kind := range []protocol.Kind{protocol.KindQuestion, protocol.KindTask, protocol.KindAgent, protocol.KindLock, protocol.KindProject} {
		if shown[kind] {
			continue
		}
		change.Subject.Kind = kind
		if err := b.a.Apply(t.Context(), change, b.now); !errors.Is(err, protocol.ErrUnsupported) {
			t.Errorf("about a %s: %v, want ErrUnsupported, or a case that shows it", kind, err)
		}
	}
	same(t, "after answers about something else", before, tree(t, b.dir))
}

// mostWritten bounds what one answer may add to a project's files, however long it is.
const mostWritten = 128 << 10

// anyWords are characters that users do not type but that a terminal, a paste or a forged button may send.
func anyWords() string {
	all := "\"},\"task_id\":\"x\"\n\r\n-->\t```\x00\x1b[2J\x7f\u0085\u2028\u202e\ufeff\xff\xed\xa0\x80\\u0000</script>"
	return all + strings.Repeat("\x01é\"\\", 1<<19) + all
}

// answerInAnyWords: every file stays whole and short, and the next scan finds no fault in it.
func (s Suite) answerInAnyWords(t *testing.T, c *Case) {
	b := s.lay(t, c)
	before := b.scan(t)
	change := c.Change(before, b.now)
	words := *change.Answer
	words.Why, words.By = anyWords(), anyWords()
	if words.Option == "" { // otherwise it is the agent's own label
		words.Label = anyWords()
	}
	change.Answer, change.Why = &words, anyWords()[:1000]
	was := tree(t, b.dir)
	if err := b.a.Apply(t.Context(), change, b.now); err != nil {
		t.Fatalf("apply: %v", err)
	}
	written := 0
	for name, n := range tree(t, b.dir) {
		if n.text != was[name].text {
			written += len(n.text) - len(was[name].text)
			wholeJSON(t, name, n.text)
		}
	}
	if written < 1 || written > mostWritten {
		t.Errorf("the answer added %d bytes, want 1 to %d", written, mostWritten)
	}
	for _, a := range []protocol.Adapter{b.a, s.Open(t, b.dir)} {
		after := a.Observe(t.Context(), protocol.ScanOrder{Now: b.now.Add(time.Minute)})
		sane(t, "after any words", before, &after)
	}
}

// wholeJSON: a file, or each of its lines, is one JSON document, as the file name says.
func wholeJSON(t *testing.T, name, text string) {
	t.Helper()
	documents := []string{text}
	switch path.Ext(name) {
	case ".json":
	case ".jsonl":
		documents = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	default:
		return
	}
	for i, d := range documents {
		if _, err := jsonfile.Parse([]byte(d)); err != nil {
			t.Errorf("%s, document %d: %v", name, i+1, err)
		}
	}
}
