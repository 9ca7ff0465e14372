package platform

import (
	"fmt"
	"os"
)

func ownerOf(string) (int, bool) { return 0, false }

// PrivateDir creates dir. Windows keeps access in inherited lists: a folder below the user's profile is private already.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create private folder: %w", err)
	}
	return nil
}

// FileID is "": there is no journal here.
func FileID(*os.File) string { return "" }
