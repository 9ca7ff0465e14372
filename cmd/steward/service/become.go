package service

import (
	"os/exec"
	"syscall"

	"github.com/livhana/steward/platform/service"
)

// becomes makes a command run as the account.
func becomes(c *exec.Cmd, who service.Account) error {
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}}
	return nil
}
