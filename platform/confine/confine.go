// Package confine restricts what a command may write before it starts: landlock(7) on Linux, nothing elsewhere.
// See docs/decisions.md, "The whole shim is confined, by go-landlock".
package confine

import "fmt"

// Writing restricts this process, and every process that it starts from then on, to writing beneath the given absolute
// files and folders; reading and executing are not restricted. Paths that do not exist are skipped and cannot be created.
// The usual devices (null, zero, full, random, urandom, tty, terminals, shared memory) stay writable, and for users other
// than root /proc, where the kernel itself enforces permissions. Descriptors that are already open stay writable, too.
// Programs that gain privileges when they start (sudo) do not gain them. Moving into, linking into and truncating count as
// writing, as far as the kernel can deny it; no kernel so far denies a change of a file's mode, owner, times or extended
// attributes. The restriction cannot be undone. Writing returns errors.ErrUnsupported, and changes nothing, if the kernel
// has no landlock or it is disabled. See docs/decisions.md, "Only writing is confined".
func Writing(beneath []string) error {
	if err := writing(beneath); err != nil {
		return fmt.Errorf("confine writing: %w", err)
	}
	return nil
}

// Supported reports whether Writing can work here.
func Supported() bool { return supported() }
