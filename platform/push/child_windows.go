package push

import (
	"os"
	"os/exec"
	"syscall"
)

// isolate keeps a console window from flashing up.
func isolate(cmd *exec.Cmd) {
	const createNoWindow = 0x08000000
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: createNoWindow}
}

// terminate ends the child alone; there is no polite way.
func terminate(p *os.Process) { _ = p.Kill() }
func kill(p *os.Process)      { _ = p.Kill() }

func awaitExit(int) bool { return false }
