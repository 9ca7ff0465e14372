package jsonfile

import "golang.org/x/sys/unix"

// renameNew fails with EEXIST if name is taken; it is unsupported on file systems that do not know the flag (they
// return EINVAL).
func (d folder) renameNew(old string, to folder, name string) error {
	return d.flagged(old, to, name, unix.RENAME_NOREPLACE)
}

// exchange swaps two entries atomically.
func (d folder) exchange(a, b string) error {
	return d.flagged(a, d, b, unix.RENAME_EXCHANGE)
}

func (d folder) flagged(old string, to folder, name string, flag uint) error {
	err := d.two(to, func(a, b int) error { return unix.Renameat2(a, old, b, name, flag) })
	if err == unix.EINVAL {
		return unix.ENOTSUP
	}
	return err
}
