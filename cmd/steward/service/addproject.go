package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// addProjects adds folders to the configuration, and returns the file if it changed. A user's own file is always written
// as that user: root must not follow links in a home folder, nor leave files owned by root there.
func addProjects(ctx context.Context, paths platform.Paths, dirs []string, who service.Account) ([]string, error) {
	var full []string
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, cli.Usagef("service: --project %s: there is no such folder", dir)
		}
		full = append(full, path)
	}
	switch {
	case len(full) == 0:
		return nil, nil
	case who.UID == os.Getuid() || !strings.HasPrefix(paths.Config, who.Home+string(filepath.Separator)):
		return extend(paths.Config, full, who.Home)
	}
	out, err := runAs(ctx, who, paths, append([]string{"service", "add", "--config", paths.Config}, full...)...)
	if err != nil {
		return nil, fmt.Errorf("service: add the project as %s: %s", who.User, terminal.OneWord(out+" "+err.Error()))
	}
	if out == "" {
		return nil, nil
	}
	return []string{out}, nil
}

// extend adds folders to one configuration file.
func extend(file string, dirs []string, home string) ([]string, error) {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("service: read the configuration: %w", err)
	}
	text := old
	for _, dir := range dirs {
		if text, err = config.AddProject(file, text, dir, home); err != nil {
			return nil, err
		}
	}
	if string(text) == string(old) {
		return nil, nil
	}
	if err := service.WriteFile(file, string(text)); err != nil {
		return nil, fmt.Errorf("service: write the configuration: %w", err)
	}
	return []string{file}, nil
}

// newAddCommand is the hidden command that install runs as the owner of the configuration.
func newAddCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "add DIR…", Hidden: true, Short: "Add projects to the configuration", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error {
			home, _ := os.UserHomeDir()
			wrote, err := extend(a.Paths().Config, dirs, home)
			if err != nil {
				return err
			}
			return a.Write(strings.Join(wrote, "\n"))
		}}
}

// runAs runs this program as the account.
func runAs(ctx context.Context, who service.Account, paths platform.Paths, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, self, args...)
	c.Dir, c.Env = who.Home, []string{"HOME=" + who.Home, "STEWARD_STATE_DIR=" + paths.State, "STEWARD_SOCKET=" + paths.Socket}
	if _, err := os.Stat(paths.Config); err == nil {
		c.Env = append(c.Env, "STEWARD_CONFIG="+paths.Config)
	}
	becomes(c, who)
	out, err := c.CombinedOutput()
	return string(out), err
}

// becomes makes a command run as the account.
func becomes(c *exec.Cmd, who service.Account) {
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}}
}
