package folder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Conflict turns what the door to the files says into what the supervisor asks about. A document that cannot be
// parsed at this moment is being rewritten: the next look tells.
func Conflict(err error) error {
	for _, sign := range []error{jsonfile.ErrConflict, jsonfile.ErrNotExist, jsonfile.ErrExist, jsonfile.ErrTorn, jsonfile.ErrBad} {
		if errors.Is(err, sign) && !errors.Is(err, protocol.ErrConflict) {
			return fmt.Errorf("%w: %w", protocol.ErrConflict, err)
		}
	}
	return err
}

// Moved is the conflict that says what has changed.
func Moved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", protocol.ErrConflict, fmt.Sprintf(format, args...))
}

// Missing reports whether an error says that there is no such file.
func Missing(err error) bool { return errors.Is(err, jsonfile.ErrNotExist) }

// wholeEvery is how often Whole tries.
const wholeEvery = 50 * time.Millisecond

// Whole runs read again and again while it finds a document that is not whole, for jsonfile.BadAfter at most: its
// writer may be at work. It returns read's last error, or the context's.
func Whole(ctx context.Context, read func() error) (err error) {
	pause := time.NewTicker(wholeEvery)
	defer pause.Stop()
	for range int(jsonfile.BadAfter / wholeEvery) {
		if err = read(); !errors.Is(err, jsonfile.ErrTorn) && !errors.Is(err, jsonfile.ErrBad) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
	}
	return err
}
