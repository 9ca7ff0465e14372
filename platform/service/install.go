package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Install writes, verifies, enables and starts the units, or restores the previous state.
func (m *systemd) Install(ctx context.Context, spec Spec, handOver func()) (Outcome, error) {
	var o Outcome
	if err := m.lacks(ctx); err != nil {
		return o, err
	}
	alone, err := lockFolder(ctx, m.dir())
	if err != nil {
		return o, doing("wait for another installation", err)
	}
	defer alone()
	files, err := m.Render(spec)
	if err != nil {
		return o, doing("write the unit", err)
	}
	was, err := m.Status(ctx)
	if err != nil {
		return o, err
	}
	o.Unit = files[0].Path
	before, err := keep(files)
	if err != nil {
		return o, err
	}
	if unit, ok := m.packaged(spec); ok && !before.wasThere() {
		o.Unit, files, before = unit, nil, nil
	}
	if before.same(files) && was.Enabled && was.State == "active" && runsNow(was.PID, spec.Binary) {
		return o, nil
	}
	if err := m.verify(ctx, files); err != nil {
		return o, err
	}
	o.Changed = true
	if err := m.establish(ctx, spec, files, was, handOver); err != nil {
		return Outcome{}, errors.Join(err, doing("put back what was there", m.revert(context.WithoutCancel(ctx), before, was)))
	}
	for i, f := range files {
		if string(before[i].text) != f.Text {
			o.Wrote = append(o.Wrote, f.Path)
		}
	}
	return o, nil
}

// packaged returns the user unit that a package installed for this program; then no other unit is needed.
func (m *systemd) packaged(spec Spec) (string, bool) {
	if m.system || len(spec.Args) > 0 {
		return "", false
	}
	for _, dir := range packagedUnits() {
		path := filepath.Join(dir, unitName)
		text, err := os.ReadFile(path)
		if err == nil && len(spec.Env) == 0 && strings.Contains(string(text), "\nExecStart="+spec.Binary+" run --service\n") {
			return path, true
		}
	}
	return "", false
}

// runsNow reports whether the process runs this very file. A program that was replaced is a different file.
func runsNow(pid int, binary string) bool {
	now, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if err != nil {
		return false
	}
	wanted, err := os.Stat(binary)
	return err == nil && os.SameFile(now, wanted)
}

// verify checks the units with systemd-analyze before anything is replaced. systemd-analyze exits with 0 on bad
// input, so its output decides.
func (m *systemd) verify(ctx context.Context, files []File) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "steward-units-")
	if err != nil {
		return doing("verify the units", err)
	}
	defer os.RemoveAll(dir)
	for _, f := range files {
		if err := write(File{filepath.Join(dir, filepath.Base(f.Path)), f.Text}); err != nil {
			return doing("verify the units", err)
		}
	}
	argv := []string{"systemd-analyze", "verify", filepath.Join(dir, unitName)}
	if !m.system {
		argv = []string{"systemd-analyze", "--user", "verify", filepath.Join(dir, unitName)}
	}
	out, _ := m.run(ctx, argv...)
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, dir) || strings.HasPrefix(line, unitName) || strings.HasPrefix(line, failedName) {
			return fmt.Errorf("verify the units: %s", line)
		}
	}
	return nil
}

// establish installs and starts the units. Without files it enables the unit of the package.
func (m *systemd) establish(ctx context.Context, spec Spec, files []File, was Status, handOver func()) error {
	if len(files) > 0 {
		if err := m.lay(spec, files); err != nil {
			return err
		}
	} else if _, err := m.ctl(ctx, "enable", unitName); err != nil {
		return doing("enable the service", err)
	}
	if _, err := m.ctl(ctx, "daemon-reload"); err != nil {
		return doing("have systemd read its units again", err)
	}
	_, _ = m.ctl(ctx, "reset-failed", unitName)
	verb, begun := "start", time.Now()
	if was.Running() {
		verb = "restart"
		handOver()
	}
	if _, err := m.ctl(ctx, verb, unitName); err != nil {
		return doing(verb+" the service", m.withWords(ctx, begun, err))
	}
	return nil
}

// lay writes the units. kardianos/service refuses to overwrite a unit and does not report what systemctl printed.
// See docs/decisions.md, "kardianos/service is the thin outer layer".
func (m *systemd) lay(spec Spec, files []File) error {
	for _, f := range files[1:] {
		if err := write(f); err != nil {
			return doing("write the unit", err)
		}
	}
	if _, err := remove(files[0].Path); err != nil {
		return doing("replace the unit", err)
	}
	layer, err := m.outer(spec, files[0].Text)
	if err != nil {
		return err
	}
	if err := layer.Install(); err != nil {
		return doing("write and enable the unit", err)
	}
	if text, err := os.ReadFile(files[0].Path); err != nil || string(text) != files[0].Text {
		return fmt.Errorf("%s was not written as it should be", files[0].Path)
	}
	return nil
}

// revert restores the previous files and the previous state.
func (m *systemd) revert(ctx context.Context, before shelf, was Status) error {
	if !was.Enabled {
		_, _ = m.ctl(ctx, "disable", unitName)
	}
	if !was.Running() {
		_, _ = m.ctl(ctx, "stop", unitName)
	}
	err := before.restore()
	_, reload := m.ctl(ctx, "daemon-reload")
	_, _ = m.ctl(ctx, "reset-failed", unitName)
	if was.Running() {
		_, start := m.ctl(ctx, "restart", unitName)
		reload = errors.Join(reload, start)
	}
	return errors.Join(err, reload)
}
