package main

import (
	"os"
	"os/signal"
	"syscall"
)

// outliveReader has a process that looks after others go on when whoever read its output has gone, as in `steward run | head`:
// what it says then is lost, and that is all. The signal is caught and not ignored: what is ignored is so in every program
// that is started from here too, whereas what is caught is as usual again there. All other commands end with their reader.
func outliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
