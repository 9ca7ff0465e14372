// Package confine takes the right to write from a command before it starts: landlock(7) on Linux, nothing elsewhere.
package confine

import "fmt"

// Writing confines the calling goroutine's thread, and every process started from that thread from then on, to writing
// beneath the given absolute files and folders; reading and executing stay as they are. The goroutine is locked to its
// thread for good, and other threads of this process stay free: start the command from the same goroutine. What is
// missing is left out; nothing can be made there. The usual devices (null, zero, full, random, urandom, tty, terminals,
// shared memory) stay writable, for users other than root also /proc, where the kernel itself guards what is not theirs;
// so do all descriptors that are open already. Programs that gain privileges when they start (sudo) do not gain them.
// Moving into, linking into and truncating are writing too, as far as the kernel knows how to refuse it; changing the
// mode, owner, times or extended attributes of a file is not refused by any kernel so far. It cannot be undone.
// errors.ErrUnsupported where the kernel has no landlock or it is turned off; then nothing has changed.
func Writing(beneath []string) error {
	if err := writing(beneath); err != nil {
		return fmt.Errorf("confine writing: %w", err)
	}
	return nil
}

// Supported reports whether Writing can work here.
func Supported() bool { return supported() }
