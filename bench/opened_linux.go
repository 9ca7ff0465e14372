package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"time"
)

// opened tells which of some files is opened next: a program is, in the moment in which it is started. Nothing has to be asked
// for again and again, which would cost more than what is measured.
type opened struct {
	events *os.File
	number map[int32]int // of the file, by watch
}

func watchOpened(files []string) (*opened, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	o := &opened{events: os.NewFile(uintptr(fd), "inotify"), number: map[int32]int{}}
	for i, file := range files {
		watch, err := syscall.InotifyAddWatch(fd, file, syscall.IN_OPEN)
		if err != nil {
			_ = o.events.Close()
			return nil, err
		}
		o.number[int32(watch)] = i
	}
	return o, nil
}

// drain forgets what was opened so far.
func (o *opened) drain() {
	_ = o.events.SetReadDeadline(time.Now())
	for {
		if _, err := o.events.Read(make([]byte, 4096)); err != nil {
			return
		}
	}
}

// next waits until the file of that number is opened.
func (o *opened) next(number int) error {
	if err := o.events.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buffer := make([]byte, 64*syscall.SizeofInotifyEvent)
	for {
		n, err := o.events.Read(buffer)
		if err != nil {
			return fmt.Errorf("program %d was not started again: %w", number, err)
		}
		for at := 0; at+syscall.SizeofInotifyEvent <= n; {
			watch := int32(binary.NativeEndian.Uint32(buffer[at:]))
			length := binary.NativeEndian.Uint32(buffer[at+12:])
			if i, ok := o.number[watch]; ok && i == number {
				return nil
			}
			at += syscall.SizeofInotifyEvent + int(length)
		}
	}
}
