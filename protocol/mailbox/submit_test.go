package mailbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol"
)

// When the developer's mailbox cannot be written, the error names the task that queue.json has already, and a second
// submission under its id adds only the message.
func TestSubmitAgainAfterBadMailbox(t *testing.T) {
	bothLayouts(t, func(t *testing.T, p *testProject, base string) {
		c, box := p.client(), filepath.Join(p.Dir, base, "messages/to-developer.json")
		good, err := os.ReadFile(box)
		if err != nil {
			t.Fatal(err)
		}
		write := func(doc string) {
			if err := os.WriteFile(box, []byte(doc), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(`{"messages": "no"}`)
		o := protocol.Order{To: "developer", Title: "Login", Text: "Build it", Fields: map[string]any{"platform": "web"}}
		if _, err := c.submit(o); err == nil || !strings.Contains(err.Error(), "task task-001 is in queue.json without its message: repair the mailbox, and submit it again with the id task-001") {
			t.Fatal(err)
		}
		write(string(good))
		o.ID = "task-001"
		c.must(protocol.TaskPending)(c.submit(o))
		queue, _ := os.ReadFile(filepath.Join(p.Dir, base, "queue.json"))
		if n := strings.Count(string(queue), `"id":`); n != 1 {
			t.Errorf("queue.json lists %d tasks: %s", n, queue)
		}
	})
}
