package push_test

import (
	"testing"

	"github.com/livhana/steward/platform/push"
)

// BenchmarkSendAccepted measures a Send until the server's confirmation.
func BenchmarkSendAccepted(b *testing.B) {
	n := client(b, serve(b, &standIn{token: secret}), push.NtfyConfig{Token: secret, ReplyTopic: "replies"})
	m := push.Message{Key: "216a33f4", Rev: 1, Title: "Git conflict", Text: "Your input is needed", Severity: "critical",
		Options: []push.Option{{ID: "retry", Label: "Run it again"}, {ID: "leave", Label: "Leave it"}}}
	for b.Loop() {
		if err := n.Send(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}
