package run

import "syscall"

const (
	adopts  = true // the shim is a subreaper: orphans come to it
	rssUnit = 1024 // getrusage(2) counts in KiB
)

func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
