package main

import (
	"os"
	"os/signal"
	"syscall"
)

// outliveReader keeps a supervising process alive when the reader of its output exits, as in `steward run | head`: later
// output is lost. SIGPIPE is caught rather than ignored: child processes inherit an ignored signal, while a caught signal
// is reset to its default in them. All other commands end with their reader.
func outliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
