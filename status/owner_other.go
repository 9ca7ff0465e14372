//go:build !unix

package status

import "os"

// checkOwner has no owner to ask for here: the folder's access list decides.
func checkOwner(path string, _ func(uid int) bool) error {
	_, err := os.Lstat(path)
	return err
}
