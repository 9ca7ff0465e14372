//go:build !linux

package measure

import "errors"

func countInotify(string) inotifyUse {
	return inotifyUse{err: errors.New("inotify is Linux's")}
}
