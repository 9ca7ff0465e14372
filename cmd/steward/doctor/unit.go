package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/livhana/steward/platform"
)

// writablePaths returns the folders that a hardened unit of the machine may write; limited is false if it may write
// everywhere.
func writablePaths(unit string) (paths []string, limited bool) {
	for line := range strings.Lines(unit) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "ProtectSystem" && value == "strict", key == "ProtectHome" && value != "no" && value != "false":
			limited = true
		case key == "ReadWritePaths" && value == "":
			paths = nil // an empty value resets the list
		case key == "ReadWritePaths":
			paths = append(paths, unitWords(value)...)
		}
	}
	return paths, limited
}

// unitWords splits a list as systemd does, and strips systemd's prefixes from the paths.
func unitWords(list string) []string {
	var all []string
	var word strings.Builder
	quote, escaped, open := rune(0), false, false
	end := func() {
		if open {
			all = append(all, strings.ReplaceAll(strings.TrimLeft(word.String(), "-+"), "%%", "%"))
		}
		word.Reset()
		open = false
	}
	for _, r := range list {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped, open = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		default:
			word.WriteRune(r)
			open = true
		}
	}
	end()
	return all
}

// mayWriteByUnit reports whether the machine's unit lets steward write in the folder.
func mayWriteByUnit(unit, dir string) bool {
	paths, limited := writablePaths(unit)
	if !limited {
		return true
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	for _, p := range paths {
		if isBelow(dir, p) || isBelow(real, p) {
			return true
		}
	}
	return false
}

func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// machineUnit returns the text of the machine's unit with its drop-ins, if it supervises these projects; else "".
func (d *examination) machineUnit() string {
	if !platform.IsMachineState(d.paths.State) {
		return ""
	}
	const unit = "/etc/systemd/system/steward.service"
	var all strings.Builder
	for _, file := range append([]string{unit}, dropInsOf(unit, d.who.Home, true)...) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		all.Write(text)
		all.WriteByte('\n')
	}
	return all.String()
}
