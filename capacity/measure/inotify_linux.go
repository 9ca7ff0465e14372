package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// countInotify counts the instances and watches of all readable processes of this user. An inherited descriptor counts
// for each of its holders; in practice inotify descriptors are closed on exec.
func countInotify(proc string) inotifyUse {
	var use inotifyUse
	for name, to := range map[string]*uint64{"watches": &use.watches.limit, "instances": &use.instances.limit} {
		n, ok := readNumber(filepath.Join(proc, "sys/fs/inotify/max_user_"+name))
		if !ok || n == 0 {
			return inotifyUse{err: fmt.Errorf("read the limit of inotify %s: nothing usable is there", name)}
		}
		*to = n
	}
	all, err := os.ReadDir(proc)
	if err != nil {
		return inotifyUse{err: fmt.Errorf("count inotify watches: %w", err)}
	}
	me := uint32(os.Geteuid())
	for _, p := range all {
		home := filepath.Join(proc, p.Name())
		var st unix.Stat_t
		if _, err := strconv.Atoi(p.Name()); err == nil && unix.Stat(home, &st) == nil && st.Uid == me {
			addInotify(home, &use)
		}
	}
	return use
}

func addInotify(home string, use *inotifyUse) {
	fds, err := os.ReadDir(filepath.Join(home, "fd"))
	if err != nil {
		return // the process has ended, or changed its user, so the kernel denies access
	}
	for _, fd := range fds {
		link, err := os.Readlink(filepath.Join(home, "fd", fd.Name()))
		if err != nil || link != "anon_inode:inotify" {
			continue
		}
		use.instances.open++
		if text, err := os.ReadFile(filepath.Join(home, "fdinfo", fd.Name())); err == nil {
			use.watches.open += inotifyWatches(text)
		}
	}
}

// inotifyWatches counts the lines of watches in the text of a descriptor's fdinfo.
func inotifyWatches(text []byte) uint64 {
	return uint64(bytes.Count(append([]byte("\n"), text...), []byte("\ninotify wd:")))
}
