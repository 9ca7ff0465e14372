package run

import "syscall"

const (
	adopts  = false // orphans go to process 1; they are found by session and mark
	rssUnit = 1     // getrusage(2) reports bytes
)

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
