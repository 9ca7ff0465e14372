package jsonfile

import "golang.org/x/sys/unix"

// renameNew fails with EEXIST if name is taken; it is unsupported on volumes that do not know the flag.
func (d folder) renameNew(old string, to folder, name string) error {
	return d.two(to, func(a, b int) error { return unix.RenameatxNp(a, old, b, name, unix.RENAME_EXCL) })
}

// exchange swaps two entries atomically.
func (d folder) exchange(a, b string) error {
	return d.two(d, func(x, y int) error { return unix.RenameatxNp(x, a, y, b, unix.RENAME_SWAP) })
}
