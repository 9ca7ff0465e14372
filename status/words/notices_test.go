package words

import (
	"testing"

	"github.com/livhana/steward/protocol"
)

// TestEveryPhraseHasAText: the phrases of tasks and notices have a sentence, or the three texts of a notice.
func TestEveryPhraseHasAText(t *testing.T) {
	for _, name := range constants(t, "../../protocol/phrases.go", "Phrase") {
		p := protocol.Phrase(name)
		n, isNotice := notices[p]
		if isNotice && (n.summary == "" || n.spoken == "" || len(n.detail) == 0) {
			t.Errorf("the notice %q lacks a text", name)
		}
		if !isNotice && template(p, "") == "" && p != protocol.PhraseTaskFailed { // Announce words that
			t.Errorf("the phrase %q has no sentence", name)
		}
	}
}
