package jsonfile

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// A struct linux_dirent64: inode, offset, record length, kind, then the zero-terminated name.
const (
	direntInode  = 0
	direntLength = 16
	direntName   = 19
)

// namesAtOnce is the buffer size of one system call.
const namesAtOnce = 64 << 10

// each passes the folder's names as raw bytes: package os would allocate a string for each.
func (d folder) each(take func(name []byte)) error {
	buf := make([]byte, namesAtOnce)
	for {
		n := 0
		err := d.on(func(fd int) (err error) {
			n, err = unix.Getdents(fd, buf)
			return err
		})
		if err != nil || n <= 0 {
			return err
		}
		if err := split(buf[:n], take); err != nil {
			return err
		}
	}
}

func split(records []byte, take func(name []byte)) error {
	for len(records) > 0 {
		length := 0
		if len(records) > direntName {
			length = int(binary.NativeEndian.Uint16(records[direntLength:]))
		}
		if length <= direntName || length > len(records) {
			return errors.New("the system's list of names makes no sense")
		}
		name := records[direntName:length]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		free := binary.NativeEndian.Uint64(records[direntInode:]) == 0
		if !free && string(name) != "." && string(name) != ".." {
			take(name)
		}
		records = records[length:]
	}
	return nil
}
