package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
)

// Each script holds realistic user files and the expected messages: for every NAME.toml a NAME.says.
func TestWhatIsRefused(t *testing.T) {
	scripts, err := filepath.Glob("testdata/config/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		archive, err := txtar.ParseFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if len(archive.Files)%2 != 0 {
			t.Fatalf("%s: a file without what is said of it", script)
		}
		for pair := range slices.Chunk(archive.Files, 2) {
			t.Run(filepath.Base(script)+"/"+pair[0].Name, func(t *testing.T) {
				if strings.TrimSuffix(pair[0].Name, ".toml") != strings.TrimSuffix(pair[1].Name, ".says") {
					t.Fatalf("%s is followed by %s", pair[0].Name, pair[1].Name)
				}
				_, err := Parse("config.toml", pair[0].Data)
				if want := strings.TrimSpace(string(pair[1].Data)); err == nil || err.Error() != want {
					t.Errorf("got\n%v\nwant\n%s", err, want)
				}
			})
		}
	}
}

// Text that is not UTF-8 is rejected at its first invalid byte, and never read as an empty file.
func TestNoTextIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"\xff\xfe":                          "config.toml:1: the file begins with ff fe, so it is UTF-16 and not UTF-8; save it as UTF-8",
		"\xfe\xff\x00#":                     "config.toml:1: the file begins with fe ff, so it is UTF-16 and not UTF-8; save it as UTF-8",
		"[human]\n# a\x00b\n":               "config.toml:2: byte 4 of the line is NUL, so this is not a text file in UTF-8",
		"\x00":                              "config.toml:1: byte 1 of the line is NUL, so this is not a text file in UTF-8",
		"[human]\r\nname = \"Jos\xe9\"\r\n": "config.toml:2: byte 12 of the line is 0xe9, which is not UTF-8; save it as UTF-8",
		"\ufeff[human]\nname = \"a\ufffd\xc3\"\n": "config.toml:2: byte 13 of the line is 0xc3, which is not UTF-8; save it as UTF-8",
		"\ufeffnam = \"with a mark\"\n[human]\n":  "config.toml:1: unknown key nam",
	} {
		if c, err := Parse("config.toml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s; it reads as %+v", text, err, want, c.Human)
		}
	}
}

func parse(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse("config.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingChangesNothing(t *testing.T) {
	for _, text := range []string{"", "# only words\n", "[tasks]\n", "[heartbeat.agents]\n", "retry = []\n", "\ufeff[human]\r\nname = \"\"\r\n", DefaultsText()} {
		if c := parse(t, text); !reflect.DeepEqual(c, Defaults()) {
			t.Errorf("%.40q: got %+v", text, c)
		}
	}
}

func TestTheUsersFileOverridesTheDefaults(t *testing.T) {
	c := parse(t, `
human.name = "Ann"
[heartbeat]
dead = "2m"
[heartbeat.agents]
planning = { dead = "5m" }
[heartbeat.agents."codex-cursor"]
late = "20s"
sources = ["log/a", "log/b"]
[capacity]
threshold = 1
calm = "0s"
[escalate]
channels = []
`)
	want := Defaults()
	want.Human.Name = "Ann"
	want.Heartbeat.Dead = 2 * time.Minute
	want.Heartbeat.Agents = c.Heartbeat.Agents
	want.Capacity.Threshold, want.Capacity.Calm = 1, 0
	want.Escalate.Channels = []string{}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	a := c.Heartbeat.Agents
	if len(a) != 2 || a["planning"].Dead != 5*time.Minute || a["codex-cursor"].Late != 20*time.Second || len(a["codex-cursor"].Sources) != 2 {
		t.Errorf("agents: %+v", a)
	}
}

// No shipped table keyed by name has an entry yet; a table that gets one must not lose keys that the user does not set.
func TestNamesAreMerged(t *testing.T) {
	s, err := read("config.toml", []byte("[heartbeat.agents.a]\nlate = \"1s\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.Heartbeat.Agents = map[string]heartbeat.Limits{"a": {Late: time.Hour, Dead: time.Hour}, "b": {Dead: time.Minute}}
	s.decode(&c)
	want := map[string]heartbeat.Limits{"a": {Late: time.Second, Dead: time.Hour}, "b": {Dead: time.Minute}}
	if !reflect.DeepEqual(c.Heartbeat.Agents, want) {
		t.Errorf("got %+v", c.Heartbeat.Agents)
	}
}

// The trap: a library that decodes into the existing slice gives row 1 the delay of the shipped row 1.
func TestRowsInheritNothing(t *testing.T) {
	c := parse(t, "[[retry]]\ncode = \"CAPACITY_EXCEEDED\"\naction = \"retry\"\nattempts = 9\nthen = \"dead\"\n"+
		"[[retry]]\nagent = \"a\"\naction = \"stop\"\n")
	want := []rules.Rule{
		{Code: "CAPACITY_EXCEEDED", Action: "retry", Attempts: 9, Then: "dead"},
		{Agent: "a", Action: "stop"},
	}
	if !slices.Equal(c.Retry[:2], want) {
		t.Errorf("got %+v", c.Retry[:2])
	}
	shipped := slices.DeleteFunc(Defaults().Retry, func(r rules.Rule) bool { return r.Name() == "code=CAPACITY_EXCEEDED" })
	if !slices.Equal(c.Retry[2:], shipped) {
		t.Errorf("the shipped rows, without the one that is replaced, do not follow: %+v", c.Retry[2:])
	}
}

func TestProjectsReplace(t *testing.T) {
	c := parse(t, "[[project]]\npath = \"/a\"\nname = \"x\"\n[project.mode]\nagentstatus = \"observe\"\n[[project]]\npath = \"/b\"\n")
	want := []Project{{Path: "/a", Name: "x", Mode: map[string]string{"agentstatus": "observe"}}, {Path: "/b"}}
	if !reflect.DeepEqual(c.Projects, want) {
		t.Errorf("got %+v", c.Projects)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	good, bad, missing, dangling := filepath.Join(dir, "good"), filepath.Join(dir, "bad"), filepath.Join(dir, "none"), filepath.Join(dir, "link")
	for path, text := range map[string]string{good: "human.name = \"Ann\"", bad: "\n\nx = 1"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, load := range []func(string, ...Check) (Config, error){Load, LoadOptional} {
		if c, err := load(good); err != nil || c.Human.Name != "Ann" {
			t.Errorf("%+v, %v", c.Human, err)
		}
		_, err := load(bad)
		if p, ok := errors.AsType[Problem](err); !ok || p.File != bad || p.Line != 3 {
			t.Errorf("got %v", err)
		}
		if _, err := load(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("a folder: %v", err)
		}
	}
	if _, err := Load(missing); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "read configuration: ") {
		t.Errorf("got %v", err)
	}
	if c, err := LoadOptional(missing); err != nil || !reflect.DeepEqual(c, Defaults()) {
		t.Errorf("%+v, %v", c, err)
	}
	if os.Symlink(missing, dangling) == nil {
		if _, err := LoadOptional(dangling); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a link that leads nowhere was taken for no file: %v", err)
		}
	}
}

func TestLoadRefusesWhatIsNoConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(path, []byte("#"+strings.Repeat(" ", maxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than 256 KiB") {
		t.Errorf("got %v", err)
	}
	for _, deep := range []string{strings.Repeat("[", maxFile/2), "\nx = " + strings.Repeat("[", maxFile/2), "\nx = " + strings.Repeat("{a=", maxFile/4), strings.Repeat("a.", maxFile/4)} {
		if _, err := Parse("deep", []byte(deep)); err == nil {
			t.Error("brackets without end were read")
		}
	}
}

// Run it with -fuzzminimizetime=5x: the first seeds are large. For any bytes: no panic; every line of an error names
// the file; an accepted file is valid, has a line for each of its keys, and survives encoding by TOML.
func FuzzParse(f *testing.F) {
	f.Add([]byte(DefaultsText()))
	f.Add([]byte(example.ReplaceAllString(DefaultsText(), "$1")))
	f.Add([]byte("[heartbeat]\ndeed = 3\n[[retry]]\ncode=\"A\"\naction='retry'\n[[retry]]\nx={y=[{z=1},\n#\n{z=2}]}\n"))
	f.Add([]byte("\"\\u00e9\".'b c'.\"\" = \"\"\"\n\\\"\"\"\"\"\nt = 1979-05-27 07:32:00Z\n"))
	f.Add([]byte("[[project]]\npath='''x'''\nmode.agentstatus=\"act\"\n[[project.x]]\n[project.x.y]\nz=1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("F", data)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "F:") {
					t.Errorf("%q does not name the file", line)
				}
			}
			checkLines(t, data)
			return
		}
		checkLines(t, data)
		if err := c.Validate(); err != nil {
			t.Errorf("accepted, but: %v", err)
		}
		text, err := c.TOML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("F", text)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%v\nread  %+v\nwrote %+v\n%s", err, back, c, text)
		}
	})
}

// A table name without its closing bracket is reported at its own line.
func TestUnclosedTableName(t *testing.T) {
	for text, line := range map[string]string{"# a\n\n[heartbeat\nlate = \"2s\"\n": "3", "[[project\n": "1", "# a\n[human]\n[a.\nb]\n": "3", "[human]\nname\n": "2", "[human]\nname = \"a\n": "2"} {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "config.toml:"+line+": ") {
			t.Errorf("%q: %v, want line %s", text, err, line)
		}
	}
}
