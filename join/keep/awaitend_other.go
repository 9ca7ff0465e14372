//go:build !linux

package keep

import (
	"context"

	"github.com/livhana/steward/platform/proc"
)

// awaitEnd waits for the end of a process that is not a child; false when ctx ends first. This system does not tell how
// it ended.
func awaitEnd(ctx context.Context, id proc.Identity, _ *Ending) bool { return pollGone(ctx, id) }
