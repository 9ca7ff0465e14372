package folder

import (
	"cmp"
	"slices"

	"github.com/livhana/steward/protocol"
)

// MostUrgentFirst sorts pending work: what may be started now comes before what waits, then the higher priority, then the
// older work. Equals keep their order.
func MostUrgentFirst(list []protocol.Assignment) []protocol.Assignment {
	slices.SortStableFunc(list, func(a, b protocol.Assignment) int {
		return cmp.Or(min(len(a.Waits), 1)-min(len(b.Waits), 1), cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created))
	})
	return list
}
