package run

import "syscall"

const (
	adopts  = true // the shim is a subreaper and adopts orphans
	rssUnit = 1024 // getrusage(2) reports KiB
)

func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
