package proc

import "errors"

// send: a process without a window or a console of ours cannot be asked.
func send(Identity, string) error { return errors.ErrUnsupported }
