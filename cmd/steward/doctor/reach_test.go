package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/status"
)

// TestDaemonsChannelIsItsOwnFinding: the daemon's result for a channel and this command's are two separate findings,
// not one that contradicts itself.
func TestDaemonsChannelIsItsOwnFinding(t *testing.T) {
	doc := &status.Document{Channels: []status.Channel{{Name: "desktop", Problem: "context deadline exceeded", At: time.Now()}}}
	names := map[string]string{}
	for _, f := range append(judgeChannels([]string{"desktop"}, doc), judgePopups(popupFacts{})...) {
		if other, twice := names[f.Name]; twice {
			t.Errorf("%s says %q and %q", f.Name, other, f.Text)
		}
		names[f.Name] = f.Text
	}
	if !strings.Contains(names["daemon's desktop"], "its last try, at ") {
		t.Errorf("%v", names)
	}
}
