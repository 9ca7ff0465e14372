package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	plainLimit = 0.8              // used share of the processor below which a plain gate admits
	plainAgain = 60 * time.Second // how long it sends away (protocol 000, retry_after_seconds)
)

// byThreshold is the burst at a gate as the document has it: who comes while the reading is below the limit begins, who
// comes above it comes again after a minute. The reading is that of the last second, taken four times a second.
func (h *herd) byThreshold() (rush, error) {
	reading, stop := readProcessor()
	defer stop()
	time.Sleep(2 * time.Second)
	began := time.Now()
	limit := began.Add(herdSpan)
	var all sync.WaitGroup
	for i := range herdTasks {
		all.Go(func() {
			for reading() >= plainLimit {
				if time.Now().Add(plainAgain).After(limit) {
					return
				}
				time.Sleep(plainAgain)
			}
			c := exec.Command(h.script, h.args(i)...)
			c.Env = h.environ()
			_ = c.Run() // that it came to its end stands in the log, or does not
		})
		time.Sleep(herdGap)
	}
	all.Wait()
	return readRush(h.log, began), nil
}

// readProcessor reads the machine's processor until stopped.
func readProcessor() (used func() float64, stop func()) {
	const steps = 4
	var (
		mu          sync.Mutex
		busy, total [steps + 1]float64
		share       float64
	)
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		copy(busy[:], busy[1:])
		copy(total[:], total[1:])
		busy[steps], total[steps] = processorTime()
		if d := total[steps] - total[0]; total[0] > 0 && d > 0 {
			share = (busy[steps] - busy[0]) / d
		}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second / steps); ; take() {
			select {
			case <-quit:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() float64 { mu.Lock(); defer mu.Unlock(); return share }, func() { close(quit); <-done }
}

// processorTime is what all cores have spent so far: at work, and in all.
func processorTime() (busy, total float64) {
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	for i, word := range strings.Fields(line) {
		n, _ := strconv.ParseFloat(word, 64)
		switch {
		case i == 0 || i > 8: // the name; guests count as user
		case i == 4 || i == 5: // idle, and waiting for a disk
			total += n
		default:
			busy, total = busy+n, total+n
		}
	}
	return busy, total
}
