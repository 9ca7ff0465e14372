package confine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary confine itself to the folders in CONFINE_TO. It then executes a shell with the script
// in CONFINE_RUN, or starts one, as CONFINE_HOW says.
func TestMain(m *testing.M) {
	script := os.Getenv("CONFINE_RUN")
	if script == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	if err := Writing(filepath.SplitList(os.Getenv("CONFINE_TO"))); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	argv := []string{"/bin/sh", "-c", script}
	if os.Getenv("CONFINE_HOW") == "exec" {
		fmt.Println(syscall.Exec(argv[0], argv, os.Environ()))
		os.Exit(3)
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if c.Run() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// confined runs a script and returns its output.
func confined(t *testing.T, how, script string, to ...string) (string, error) {
	t.Helper()
	if !Supported() {
		t.Skip("no landlock here")
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "LC_ALL=C", "CONFINE_HOW="+how, "CONFINE_RUN="+script, "CONFINE_TO="+strings.Join(to, ":"))
	out, err := c.CombinedOutput()
	return string(out), err
}

// refusal matches denied operations: moving and linking between paths with different rights is denied as between file
// systems.
var refusal = regexp.MustCompile("Permission denied|Invalid cross-device link")

func TestWritingHoldsForAllThatIsStarted(t *testing.T) {
	for _, how := range []string{"exec", "start"} {
		for name, c := range map[string]struct{ script, denied string }{
			"inside":               {"echo x > $IN/a && mkdir $IN/d && ln -s a $IN/l && ln $IN/a $IN/h && mkfifo $IN/p && rm -r $IN/a $IN/d $IN/p", ""},
			"between two":          {"echo x > $IN/b && mv $IN/b $TOO/b && mv $TOO/b $IN/c && ln $IN/c $TOO/c", ""},
			"one file":             {"echo x > $ONE && : > $ONE", ""},
			"reading and starting": {"cat $OUT/kept && $OUT/tool && ls / > /dev/null", ""},
			"a new file":           {"echo x > $OUT/new", "$OUT/new"},
			"a change":             {"echo x >> $OUT/kept", "$OUT/kept"},
			"another than the one": {"echo x > $ONE.other", "$ONE.other"},
			"truncating":           {"truncate -s 0 $OUT/kept", "$OUT/kept"},
			"removing":             {"rm $OUT/kept", "$OUT/kept"},
			"removing a folder":    {"rmdir $OUT/folder", "$OUT/folder"},
			"a folder":             {"mkdir $OUT/new", "$OUT/new"},
			"a link":               {"ln -s x $OUT/new", "$OUT/new"},
			"linking in":           {"ln $OUT/kept $IN/hard", "$OUT/kept"},
			"moving out":           {"echo x > $IN/m && mv -T $IN/m $OUT/new", "$OUT/new"},
			"through a link":       {"ln -s $OUT $IN/way && echo x > $IN/way/new", "$IN/way/new"},
			"a later process":      {"(setsid sh -c 'echo x > $OUT/new') ", "$OUT/new"},
		} {
			t.Run(how+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				for _, d := range []string{"in", "too", "out/folder"} {
					os.MkdirAll(filepath.Join(dir, d), 0o755)
				}
				os.WriteFile(dir+"/out/kept", []byte("kept\n"), 0o644)
				os.WriteFile(dir+"/out/tool", []byte("#!/bin/sh\n"), 0o755)
				os.WriteFile(dir+"/one", nil, 0o644)
				names := strings.NewReplacer("$IN", dir+"/in", "$TOO", dir+"/too", "$OUT", dir+"/out", "$ONE", dir+"/one")
				out, err := confined(t, how, names.Replace(c.script), dir+"/in", dir+"/too", dir+"/one", dir+"/missing")
				if c.denied == "" && err != nil {
					t.Errorf("%v: %s", err, out)
				}
				if c.denied != "" && (err == nil || !strings.Contains(out, names.Replace(c.denied)) || !refusal.MatchString(out)) {
					t.Errorf("%v: %s", err, out)
				}
				if text, err := os.ReadFile(dir + "/out/kept"); err != nil || string(text) != "kept\n" {
					t.Errorf("outside there is now %q, %v", text, err)
				}
				if _, err := os.Lstat(dir + "/out/new"); err == nil {
					t.Error("it was made outside")
				}
			})
		}
	}
}

func TestDevicesStayUsable(t *testing.T) {
	script := `for d in null zero; do echo x > /dev/$d || echo no $d; done
		echo x >> /dev/stdout; echo y > /dev/stderr; echo z > /dev/fd/1
		(head -c 1 /dev/zero > /dev/full) 2>&1 | grep -q "No space left" || echo no full
		f=$(mktemp -p /dev/shm) && rm $f || echo no shm
		script -qec 'echo terminal > /dev/tty' /dev/null < /dev/null
		head -c 1 /dev/urandom > /dev/null; cat /proc/self/comm`
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("no script(1)")
	}
	out, err := confined(t, "start", script, t.TempDir())
	if want := "x\ny\nz\nterminal\r\ncat\n"; err != nil || out != want {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestPathsAreAbsolute(t *testing.T) {
	if err := Writing([]string{"/tmp", "relative"}); err == nil || !strings.Contains(err.Error(), `"relative"`) {
		t.Errorf("got %v", err)
	}
}

func TestRightsByVersion(t *testing.T) {
	for abi, bits := range map[int]int{1: 10, 2: 11, 3: 12, 4: 12, 5: 13, 7: 13, 99: 13} {
		n := 0
		for r := writesOf(abi); r != 0; r &= r - 1 {
			n++
		}
		if n != bits {
			t.Errorf("version %d: %d rights, want %d", abi, n, bits)
		}
	}
}
