package folder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Conflict translates jsonfile errors into the errors that the supervisor tests for. A document that cannot be parsed
// is probably being rewritten: the next scan decides.
func Conflict(err error) error {
	for _, sign := range []error{jsonfile.ErrConflict, jsonfile.ErrNotExist, jsonfile.ErrExist, jsonfile.ErrTorn, jsonfile.ErrBad} {
		if errors.Is(err, sign) && !errors.Is(err, protocol.ErrConflict) {
			return fmt.Errorf("%w: %w", protocol.ErrConflict, err)
		}
	}
	return err
}

// Moved returns a conflict that says what has changed.
func Moved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", protocol.ErrConflict, fmt.Sprintf(format, args...))
}

// Missing reports whether err means that the file does not exist.
func Missing(err error) bool { return errors.Is(err, jsonfile.ErrNotExist) }

// wholeEvery is the retry interval of Whole.
const wholeEvery = 50 * time.Millisecond

// Whole repeats read while it returns an incomplete document, for jsonfile.BadAfter at most: a writer may be active. It
// returns read's last error, or the context's.
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

// Invalid returns an *protocol.InvalidError that lists the problems of a message; nil if there are none.
func Invalid(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return &protocol.InvalidError{Problems: problems}
}

// Refuse returns an *protocol.InvalidError with one problem.
func Refuse(format string, args ...any) error { return Invalid([]string{fmt.Sprintf(format, args...)}) }
