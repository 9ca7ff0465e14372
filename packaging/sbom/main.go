// Command sbom says what is inside a Go binary: a CycloneDX 1.6 bill of materials, or the licences' full texts. It
// reads the binary's own build information, so that it lists what was linked and not what was asked for.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	release := flag.String("version", "dev", "the version of the program")
	notices := flag.Bool("notices", false, "print the licences' texts instead")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *release, *notices); err != nil {
		fmt.Fprintln(os.Stderr, "sbom: "+err.Error())
		os.Exit(1)
	}
}

func run(w io.Writer, binary, release string, notices bool) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read what %q was built from: %w; use a Go binary", binary, err)
	}
	parts, err := partsOf(info)
	if err != nil {
		return err
	}
	if notices {
		return writeNotices(w, parts)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(bill(info, parts, release, sha256.Sum256(data), os.Getenv("SOURCE_DATE_EPOCH")))
}

// part is one module that was linked, or Go's own library.
type part struct {
	path, version string
	sum           string // as in go.sum, "" for Go itself
	license       string // the SPDX name, "" if its text is not a known one
	texts         []text
}

// text is one file of a module that its licence asks to be passed on.
type text struct {
	name string
	data []byte
}

// partsOf finds each module's folder in the module cache, for its licence.
func partsOf(info *debug.BuildInfo) ([]part, error) {
	std := part{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	if std.texts, err = licenseTexts(root); err != nil {
		return nil, err
	}
	std.license = classify(std.texts)
	parts := []part{std}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		dir, err := output("go", "list", "-m", "-f", "{{.Dir}}", m.Path)
		if err != nil {
			return nil, err
		}
		p := part{path: m.Path, version: m.Version, sum: m.Sum}
		if p.texts, err = licenseTexts(dir); err != nil {
			return nil, err
		}
		p.license = classify(p.texts)
		parts = append(parts, p)
	}
	return parts, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w; run it inside steward's source", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// licenseTexts reads the files at the top of a module whose names say that they are to be passed on.
func licenseTexts(dir string) ([]text, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for the licence: %w; run: go mod download", err)
	}
	var all []text
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(upper, "LICEN") && !strings.HasPrefix(upper, "COPYING") && !strings.HasPrefix(upper, "NOTICE") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the licence: %w", err)
		}
		all = append(all, text{e.Name(), data})
	}
	return all, nil
}

// writeNotices prints every text under the module that it belongs to.
func writeNotices(w io.Writer, parts []part) error {
	for _, p := range parts {
		for _, t := range p.texts {
			if _, err := fmt.Fprintf(w, "==== %s %s: %s\n\n%s\n\n", p.path, p.version, t.name, strings.TrimSpace(string(t.data))); err != nil {
				return fmt.Errorf("write the licences: %w", err)
			}
		}
	}
	return nil
}
