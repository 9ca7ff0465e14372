package packaging_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The release that these tests make: a candidate, whose version deb and rpm must order before the final one.
const (
	candidate      = "v1.2.3-rc.1"
	candidateEpoch = 1790000000
)

// release is the folder of a release for linux/amd64.
type release struct{ dir string }

func (r release) file(name string) string { return filepath.Join(r.dir, name) }
func (r release) deb() string             { return r.file("steward_1.2.3-rc.1_amd64.deb") }
func (r release) rpm() string             { return r.file("steward-1.2.3-rc.1-1.x86_64.rpm") }
func (r release) archive() string         { return r.file("steward_1.2.3-rc.1_linux_amd64.tar.gz") }
func (r release) bill() string            { return r.file("steward_1.2.3-rc.1_linux_amd64.cdx.json") }

// lacks skips where a program is missing.
func lacks(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("skipped: %s is not installed", p)
		}
	}
}

// says runs a command and gives its output; one that fails ends the test.
func says(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer // kept apart: the go command reports downloads there
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// holds wants every line in a text.
func holds(t *testing.T, what, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("%s lacks %q; it is:\n%s", what, line, text)
		}
	}
}

func TestPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: short; this builds packages")
	}
	lacks(t, "git", "gzip", "install", "sha256sum", "dpkg-deb")
	if out, err := exec.Command("go", "-C", "tools", "tool", "-n", "nfpm").CombinedOutput(); err != nil {
		t.Skipf("skipped: nfpm is not to be had: %s", bytes.TrimSpace(out))
	}
	r := release{t.TempDir()}
	cmd := exec.Command("sh", "build.sh")
	cmd.Env = append(os.Environ(), "VERSION="+candidate, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", candidateEpoch), "OUT="+r.dir, "PLATFORMS=linux/amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	for name, test := range map[string]func(*testing.T, release){
		"deb": debHolds, "rpm": rpmHolds, "archive": archiveHolds, "bill": billHolds, "lintian": lintianPasses,
		"sums": sumsHold, "units": unitsHold, "manual": manualReads,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

// everywhere is what both packages hold.
func everywhere() []string {
	return []string{
		"-rwxr-xr-x /usr/bin/steward",
		"-rw-r--r-- /usr/lib/systemd/user/steward.service",
		"-rw-r--r-- /usr/lib/systemd/user/steward-failed.service",
		"-rw-r--r-- /usr/share/bash-completion/completions/steward",
		"-rw-r--r-- /usr/share/fish/vendor_completions.d/steward.fish",
		"-rw-r--r-- /usr/share/man/man1/steward.1.gz",
		"-rw-r--r-- /usr/share/man/man1/steward-run.1.gz",
		"-rw-r--r-- /usr/share/man/man5/steward.toml.5.gz",
		"-rw-r--r-- /usr/share/doc/steward/README.md",
		"-rw-r--r-- /usr/share/doc/steward/THIRD-PARTY.txt",
		"-rw-r--r-- /usr/share/doc/steward/examples/config.toml",
		"-rwxr-xr-x /usr/share/steward/boot/codex_agent_boot.sh",
	}
}

func debHolds(t *testing.T, r release) {
	var list []string
	for line := range strings.Lines(says(t, "dpkg-deb", "-c", r.deb())) {
		if f := strings.Fields(line); len(f) == 6 {
			list = append(list, f[0]+" "+strings.TrimPrefix(f[5], "."))
			if f[1] != "root/root" {
				t.Errorf("%s belongs to %s", f[5], f[1])
			}
		}
	}
	for _, want := range append(everywhere(), "-rw-r--r-- /usr/share/zsh/vendor-completions/_steward",
		"-rw-r--r-- /usr/share/doc/steward/copyright", "-rw-r--r-- /usr/share/doc/steward/changelog.gz") {
		if !slices.Contains(list, want) {
			t.Errorf("the deb lacks %s; it holds:\n%s", want, strings.Join(list, "\n"))
		}
	}
	unpacked := filepath.Join(t.TempDir(), "deb")
	says(t, "dpkg-deb", "-R", r.deb(), unpacked)
	says(t, "dpkg-deb", "-Znone", "-b", unpacked, unpacked+".deb") // it refuses an empty line in conffiles
	holds(t, "the deb's control", says(t, "dpkg-deb", "-f", r.deb()), "Version: 1.2.3~rc.1\n", "Architecture: amd64\n")
	if err := exec.Command("dpkg", "--compare-versions", "1.2.3~rc.1", "lt", "1.2.3").Run(); err != nil {
		t.Error("the candidate's version does not come before the release's")
	}
	scripts := t.TempDir()
	says(t, "dpkg-deb", "-e", r.deb(), scripts)
	for name, word := range map[string]string{"postinst": "renew", "prerm": "withdraw", "postrm": "reload"} {
		text, _ := os.ReadFile(filepath.Join(scripts, name))
		holds(t, name, string(text), "#!/bin/sh\n", "set -e\n", word+"()", "exit 0\n")
	}
}

func rpmHolds(t *testing.T, r release) {
	lacks(t, "rpm")
	holds(t, "the rpm's digests", says(t, "rpm", "-K", r.rpm()), "digests OK")
	holds(t, "the rpm's header", says(t, "rpm", "-qp", "--qf", "%{VERSION} %{RELEASE} %{ARCH} %{BUILDHOST} %{BUILDTIME}", r.rpm()),
		fmt.Sprintf("1.2.3~rc.1 1 x86_64 localhost %d", candidateEpoch))
	list := says(t, "rpm", "-qp", "--qf", `[%{FILEMODES:perms} %{FILENAMES}\n]`, r.rpm())
	holds(t, "the rpm", list, append(everywhere(), "-rw-r--r-- /usr/share/zsh/site-functions/_steward",
		"-rw-r--r-- /usr/share/licenses/steward/LICENSE")...)
	for _, shared := range []string{" /usr\n", " /usr/bin\n", " /usr/share\n", " /usr/lib/systemd\n"} {
		if strings.Contains(list, shared) {
			t.Errorf("the rpm claims a folder of the system:%s", shared)
		}
	}
	holds(t, "the rpm's scripts", says(t, "rpm", "-qp", "--scripts", r.rpm()), "postinstall scriptlet (using /bin/sh)",
		"preuninstall scriptlet (using /bin/sh)", "postuninstall scriptlet (using /bin/sh)", `[ "$1" -gt 1 ]`, `[ "$1" -eq 0 ]`)
}

// unpacked reads a whole archive, and looks at the order, the owners and the times on the way.
func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil || !zipped.ModTime.IsZero() {
		t.Fatalf("%s: %v, time %v; want none", path, err, zipped.ModTime)
	}
	files, last := map[string][]byte{}, ""
	for in := tar.NewReader(zipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name < last || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(candidateEpoch, 0)) {
			t.Errorf("%s: after %s, owner %d:%d %q, time %v", h.Name, last, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		last = h.Name
		_, name, _ := strings.Cut(h.Name, "/")
		if files[name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		if program := h.Mode&0o111 != 0 && h.Typeflag == tar.TypeReg; program != (name == "steward" || strings.HasSuffix(name, ".sh")) {
			t.Errorf("%s has the mode %o", name, h.Mode)
		}
	}
}

func archiveHolds(t *testing.T, r release) {
	files := unpacked(t, r.archive())
	for _, name := range []string{"steward", "LICENSE", "README.md", "THIRD-PARTY.txt", "config.toml", "completions/steward.bash",
		"completions/_steward", "completions/steward.fish", "man/steward.1", "man/steward.toml.5", "boot/codex_agent_boot.sh", "boot/README.md"} {
		if len(files[name]) == 0 {
			t.Errorf("the archive lacks %s", name)
		}
	}
	if bytes.Contains(files["README.md"], []byte("](docs/")) {
		t.Error("README.md links to pages that are not in the package")
	}
	holds(t, "THIRD-PARTY.txt", string(files["THIRD-PARTY.txt"]), "==== std ", "==== github.com/spf13/cobra ", "Apache License")
	program := filepath.Join(t.TempDir(), "steward")
	if err := os.WriteFile(program, files["steward"], 0o755); err != nil {
		t.Fatal(err)
	}
	holds(t, "steward version", says(t, program, "version"), "steward "+candidate+" ")
	if bytes.Contains(files["steward"], []byte("spf13/cobra/doc")) {
		t.Error("the manual's library is in the program")
	}
	for shell, file := range map[string]string{"bash": "completions/steward.bash", "zsh": "completions/_steward"} {
		if _, err := exec.LookPath(shell); err == nil {
			script := filepath.Join(t.TempDir(), shell)
			_ = os.WriteFile(script, files[file], 0o600)
			says(t, shell, "-n", script)
		}
	}
}

// billHolds checks what the CycloneDX 1.6 schema demands of the parts that are used, and that the bill is this binary's.
func billHolds(t *testing.T, r release) {
	data, err := os.ReadFile(r.bill())
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		Ref      string `json:"bom-ref"`
		Type     string
		Name     string
		Version  string
		PURL     string
		Hashes   []struct{ Alg, Content string }
		Licenses []struct {
			License    struct{ ID string }
			Expression string
		}
	}
	var doc struct {
		Format     string `json:"bomFormat"`
		Spec       string `json:"specVersion"`
		Serial     string `json:"serialNumber"`
		Version    int
		Components []part
		Metadata   struct {
			Timestamp time.Time
			Component part
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != "CycloneDX" || doc.Spec != "1.6" || doc.Version != 1 || doc.Metadata.Timestamp.Unix() != candidateEpoch ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(doc.Serial) {
		t.Errorf("the head of the bill: %q %q %q %d %v", doc.Format, doc.Spec, doc.Serial, doc.Version, doc.Metadata.Timestamp)
	}
	sum := sha256.Sum256(unpacked(t, r.archive())["steward"])
	root := doc.Metadata.Component
	if root.Version != candidate || len(root.Hashes) != 1 || root.Hashes[0].Content != hex.EncodeToString(sum[:]) {
		t.Errorf("the bill is of %s %v; the binary is %x", root.Version, root.Hashes, sum)
	}
	refs := map[string]bool{}
	for _, c := range doc.Components {
		named := len(c.Licenses) == 1 && c.Licenses[0].License.ID+c.Licenses[0].Expression != ""
		if c.Type != "library" || c.Version == "" || refs[c.Ref] || c.PURL != "pkg:golang/"+c.Name+"@"+c.Version || !named || len(c.Hashes) == 0 && c.Name != "std" {
			t.Errorf("a part of the bill: %+v", c)
		}
		refs[c.Ref] = true
	}
	if len(refs) < 10 || len(doc.Dependencies) != 1 || doc.Dependencies[0].Ref != root.Ref || len(doc.Dependencies[0].DependsOn) != len(refs) {
		t.Errorf("%d parts, dependencies %+v", len(refs), doc.Dependencies)
	}
}
