package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func lintianPasses(t *testing.T, r release) {
	lacks(t, "lintian")
	// Debian's checker warns about being run as root, on its standard error.
	out, err := exec.Command("lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", r.deb()).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

func sumsHold(t *testing.T, r release) {
	cmd := exec.Command("sha256sum", "--strict", "-c", "SHA256SUMS")
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("SHA256SUMS: %v\n%s", err, out)
	}
	sums, _ := os.ReadFile(r.file("SHA256SUMS"))
	entries, _ := os.ReadDir(r.dir)
	for _, e := range entries {
		if e.Name() != "SHA256SUMS" && !strings.Contains(string(sums), "  "+e.Name()+"\n") {
			t.Errorf("SHA256SUMS lacks %s", e.Name())
		}
	}
}

// unitsHold: the packaged units are those of the program, and of no user.
func unitsHold(t *testing.T, r release) {
	root := t.TempDir()
	says(t, "dpkg-deb", "-x", r.deb(), root)
	for name, line := range map[string]string{
		"steward.service":        "\nExecStart=/usr/bin/steward run --service\n",
		"steward-failed.service": "\nExecStart=/usr/bin/steward service failed\n",
	} {
		text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/user", name))
		if err != nil {
			t.Fatal(err)
		}
		holds(t, name, string(text), line, "\n[Unit]\n", "\n[Service]\n")
		home, _ := os.UserHomeDir()
		// What begins with Protect or Private suits some versions of systemd and harms with others.
		for _, bad := range []string{"\nUser=", "\nProtect", "\nPrivate", home + "/", root} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s has %q, which is of the machine that built it:\n%s", name, bad, text)
			}
		}
	}
}

func manualReads(t *testing.T, r release) {
	lacks(t, "man", "groff")
	files := unpacked(t, r.archive())
	for name, word := range map[string]string{"man/steward-run.1": "steward run", "man/steward.toml.5": "look_every"} {
		path := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(path, files[name], 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("man", "--warnings", "-l", path)
		cmd.Env = append(os.Environ(), "MANWIDTH=100", "MAN_KEEP_FORMATTING=", "LC_ALL=C.UTF-8")
		var warned strings.Builder
		cmd.Stderr = &warned
		out, err := cmd.Output()
		if err != nil || warned.Len() > 0 {
			t.Errorf("man %s: %v\n%s", name, err, warned.String())
		}
		holds(t, name, string(out), word)
	}
	config, _ := os.ReadFile("../config.toml")
	page := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "").Replace(string(files["man/steward.toml.5"]))
	if !strings.Contains(page, string(config)) {
		t.Error("steward.toml(5) does not hold config.toml word for word")
	}
}

// TestFormula: the formula's addresses and sums are those of the archives.
func TestFormula(t *testing.T) {
	lacks(t, "sha256sum")
	dir := t.TempDir()
	for _, platform := range []string{"darwin_arm64", "darwin_amd64", "linux_arm64", "linux_amd64"} {
		if err := os.WriteFile(filepath.Join(dir, "steward_1.2.3_"+platform+".tar.gz"), []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := says(t, "sh", "homebrew/formula.sh", "1.2.3", dir)
	const base = "https://github.com/livhana/steward/releases/download/v1.2.3/steward_1.2.3_"
	holds(t, "the formula", text, "class Steward < Formula", `version "1.2.3"`, "steward service install", "steward service uninstall",
		`url "`+base+`darwin_arm64.tar.gz"`+"\n      sha256 \""+sumOf(t, dir, "darwin_arm64"),
		`url "`+base+`linux_amd64.tar.gz"`+"\n      sha256 \""+sumOf(t, dir, "linux_amd64"))
	if _, err := exec.LookPath("ruby"); err == nil {
		path := filepath.Join(dir, "steward.rb")
		_ = os.WriteFile(path, []byte(text), 0o600)
		says(t, "ruby", "-c", path)
	}
}

func sumOf(t *testing.T, dir, platform string) string {
	return strings.Fields(says(t, "sha256sum", filepath.Join(dir, "steward_1.2.3_"+platform+".tar.gz")))[0]
}
