package push_test

import "os"

func sessionOf(int) int { return 0 }

// alive: to find a process here is to have a handle of it.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err == nil {
		p.Release()
	}
	return err == nil
}

func leave([]string) {}
