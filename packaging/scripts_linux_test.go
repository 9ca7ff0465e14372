package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script puts a package's script together as build.sh does.
func script(t *testing.T, name string) string {
	t.Helper()
	shared, err := os.ReadFile("linux/managers.sh")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("linux/" + name + ".sh")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, append(shared, own...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// aside runs shell commands where the folders of systemd are private and empty.
func aside(t *testing.T, commands string, args ...string) string {
	t.Helper()
	lacks(t, "unshare", "setpriv", "systemctl")
	if os.Geteuid() != 0 || exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/run").Run() != nil {
		t.Skip("skipped: no root that may mount")
	}
	const setUp = "set -e\nmount -t tmpfs none /run\n[ ! -d /etc/systemd/system ] || mount -t tmpfs none /etc/systemd/system\n"
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", setUp + commands, "sh"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A package is installed, upgraded and removed without a systemd, in silence but for the welcome.
func TestScriptsWithoutSystemd(t *testing.T) {
	for call, want := range map[string]int{
		"deb-postinst configure": 2, "deb-postinst configure 1.0": 0, "deb-postinst abort-remove": 0,
		"deb-prerm remove": 0, "deb-prerm upgrade 2.0": 0, "deb-postrm remove": 0, "deb-postrm upgrade 2.0": 0,
		"rpm-post 1": 2, "rpm-post 2": 0, "rpm-preun 1": 0, "rpm-preun 0": 0, "rpm-postun 1": 0, "rpm-postun 0": 0,
	} {
		words := strings.Fields(call)
		out := aside(t, `"$@" </dev/null`, append([]string{script(t, words[0])}, words[1:]...)...)
		if strings.Count(out, "\n") != want || want > 0 && !strings.Contains(out, "steward service install") {
			t.Errorf("%s: want %d lines, got:\n%s", call, want, out)
		}
	}
}

// standIn takes the place of systemctl: it notes who asks for what. User 5's unit runs a program from elsewhere.
const standIn = `#!/bin/sh
me=$(id -u)
echo "$me${XDG_RUNTIME_DIR:+ $XDG_RUNTIME_DIR} $*" >>/run/asked
case "$me $*" in
"5 "*" show "*) echo 'ExecStart={ path=/home/games/steward ; argv[]=/home/games/steward run --service }' ;;
*" show "*|*" show") echo 'ExecStart={ path=/usr/bin/steward ; argv[]=/usr/bin/steward run --service }' ;;
"0 show "*) echo 'ExecStart={ path=/usr/bin/steward ; argv[]=/usr/bin/steward run --service }' ;;
"6 "*" try-restart "*) exit 1 ;;
esac
`

// managed runs a script in a machine whose users 1, 5 and 6 have a manager each, and gives what was asked of systemctl
// and what the script said.
func managed(t *testing.T, before, name string, args ...string) (asked, said string) {
	t.Helper()
	stub := filepath.Join(t.TempDir(), "systemctl")
	if err := os.WriteFile(stub, []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	// The stand-in must be readable for all users, which a test's folder is not.
	const setUp = `
cp "$1" /run/systemctl && chmod 755 /run /run/systemctl
mount --bind /run/systemctl "$(readlink -f /usr/bin/systemctl)"
mkdir -p /run/systemd/system
for uid in 1 5 6; do
	mkdir -p /run/user/$uid/systemd
	perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' /run/user/$uid/systemd/private
done
: >/run/asked; chmod 666 /run/asked
mkdir -p /run/bin; printf '#!/bin/sh\n' >/run/bin/policy-rc.d; chmod 755 /run/bin /run/bin/policy-rc.d; PATH=/run/bin:$PATH
`
	lacks(t, "perl")
	out := aside(t, setUp+before+"\nshift\n\"$@\" </dev/null\necho ====\ncat /run/asked", append([]string{stub, script(t, name)}, args...)...)
	said, asked, _ = strings.Cut(out, "====\n")
	return asked, said
}

func TestScriptsReachManagers(t *testing.T) {
	const (
		machineReloads = "0 daemon-reload\n"
		usersReload    = "1 /run/user/1 --user daemon-reload\n5 /run/user/5 --user daemon-reload\n6 /run/user/6 --user daemon-reload\n"
		machineShows   = "0 show -p ExecStart steward.service\n"
	)
	show := func(uid string) string {
		return uid + " /run/user/" + uid + " --user show -p ExecStart steward.service\n"
	}
	do := func(uid, verb string) string {
		return uid + " /run/user/" + uid + " --user " + verb + " steward.service\n"
	}
	renewed := machineReloads + usersReload + machineShows + "0 try-restart steward.service\n" +
		show("1") + do("1", "try-restart") + show("5") + show("6") + do("6", "try-restart")
	withdrawn := show("1") + do("1", "stop") + do("1", "disable") + show("5") + show("6") + do("6", "stop") + do("6", "disable")
	const forbid = "echo 'exit 101' >>/run/bin/policy-rc.d"
	for _, c := range []struct{ before, call, asked, said string }{
		{"", "deb-postinst configure 1.0", renewed, "steward: user 6's service did not restart"},
		{"", "rpm-post 2", renewed, "steward: user 6's service did not restart"},
		{"", "deb-postinst configure", "", "steward service install"},
		{forbid, "deb-postinst configure 1.0", machineReloads + usersReload, ""},
		{"rmdir /run/systemd/system", "deb-postinst configure 1.0", "", ""}, // systemd is installed, but not in charge
		{"", "deb-prerm upgrade 2.0", "", ""},
		{"", "deb-prerm remove", withdrawn, ""},
		{"", "rpm-preun 0", withdrawn, ""},
		{"", "rpm-preun 1", "", ""},
		{forbid, "deb-prerm remove", show("1") + show("5") + show("6"), "policy-rc.d forbids to stop user 6's service"},
		{"", "deb-postrm remove", machineReloads + usersReload, ""},
		{"", "rpm-postun 0", machineReloads + usersReload, ""},
		{"", "rpm-postun 1", "", ""},
	} {
		words := strings.Fields(c.call)
		asked, said := managed(t, c.before, words[0], words[1:]...)
		if asked != c.asked || !strings.Contains(said, c.said) || c.said == "" && said != "" {
			t.Errorf("%s: asked\n%swant\n%ssaid %q, want %q", c.call, asked, c.asked, said, c.said)
		}
	}
}

// The machine's unit is taken away by the program itself, and only if it runs that program.
func TestScriptsWithdrawTheMachineUnit(t *testing.T) {
	const program = `printf '#!/bin/sh\necho "steward $*"\n' >/run/steward; chmod 755 /run/steward
sed -i 's|^program=.*|program=/run/steward|' "$2"
`
	for path, want := range map[string]bool{"/run/steward": true, "/usr/local/bin/steward": false} {
		unit := "printf '[Service]\\nExecStart=" + path + " run --service\\n' >/etc/systemd/system/steward.service\n"
		_, said := managed(t, program+unit, "deb-prerm", "remove")
		if strings.Contains(said, "steward service uninstall --system\n") != want {
			t.Errorf("a unit that starts %s: %q", path, said)
		}
	}
}
