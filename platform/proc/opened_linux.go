package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func opened(pid int) ([]OpenFile, error) {
	home := "/proc/" + strconv.Itoa(pid)
	fds, err := numbers(home + "/fd")
	if err != nil {
		return nil, absent(pid, err)
	}
	var files []OpenFile
	for _, fd := range fds {
		name := strconv.Itoa(fd)
		path, err := os.Readlink(home + "/fd/" + name)
		if err != nil || !strings.HasPrefix(path, "/") {
			continue
		}
		if flags, ok := openFlags(home + "/fdinfo/" + name); ok && canWrite(flags) && isFile(home+"/fd/"+name) {
			files = append(files, OpenFile{Path: path, FD: fd, Append: flags&unix.O_APPEND != 0})
		}
	}
	return files, nil
}

// openFlags reads a descriptor's flags (proc(5), /proc/pid/fdinfo; octal).
func openFlags(fdinfo string) (flags uint64, ok bool) {
	text, err := readSmall(fdinfo)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if rest, found := bytes.CutPrefix(line, []byte("flags:")); found {
			flags, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 8, 64)
			return flags, err == nil
		}
	}
	return 0, false
}

func canWrite(flags uint64) bool {
	mode := flags & unix.O_ACCMODE
	return (mode == unix.O_WRONLY || mode == unix.O_RDWR) && flags&unix.O_PATH == 0
}
