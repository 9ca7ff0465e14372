package desktop

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// isolate keeps a console window from flashing up.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
}

// killGroup ends the child alone: PowerShell starts no further processes for our scripts.
func killGroup(p *os.Process) error { return p.Kill() }

func awaitExit(int) bool { return false }
