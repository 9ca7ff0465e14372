package measure

import (
	"strings"
	"testing"
	"time"
)

func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"7", " 12\n", "9223372036854775807", "9223372036854775808", "-1", "1x", "", "max", "00018446744073709551616"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, rest, ok := number(text)
		if ok && (n > 1<<63-1 || len(rest) >= len(text)) {
			t.Errorf("%q: %d, %q", text, n, rest)
		}
		if _, one := single(text); one && !ok {
			t.Errorf("%q is a single number, and none", text)
		}
	})
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, " 12 x": 12, "9223372036854775807\n": 1<<63 - 1} {
		if n, _, ok := number([]byte(text)); !ok || n != want {
			t.Errorf("%q: %d %v", text, n, ok)
		}
	}
	for _, text := range []string{"", " ", "-1", "9223372036854775808", "99999999999999999999999", "1x", "max", "1.5"} {
		if n, _, ok := number([]byte(text)); ok {
			t.Errorf("%q: %d", text, n)
		}
	}
}

func TestEntry(t *testing.T) {
	text := []byte("inactive_file_x 1\ninactive_file 4096\nactive_file lots\nlast 7")
	for name, want := range map[string]uint64{"inactive_file": 4096, "last": 7} {
		if n, ok := entry(text, name); !ok || n != want {
			t.Errorf("%s: %d %v", name, n, ok)
		}
	}
	for _, name := range []string{"active_file", "inactive", "none", ""} {
		if n, ok := entry(text, name); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func FuzzParseTicks(f *testing.F) {
	f.Add([]byte("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1"))
	f.Add([]byte("cpu  1 2 3 4\n"))
	f.Add([]byte("cpu  1 2 3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseTicks(text, nil); err == nil && !(got.idle >= 0 && got.idle <= got.total*(1+1e-9)) {
			t.Errorf("%q: %+v", text, got)
		}
	})
}

func TestParseTicks(t *testing.T) {
	for text, want := range map[string]ticks{
		"cpu  100 200 300 400 500 600 700 800 900 1000\ncpu0 9": {idle: 9, total: 36},
		"cpu  100 200 300 400\n":                                {idle: 4, total: 10},
	} {
		if got, err := parseTicks([]byte(text), nil); err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "cpu", "cpu  1 2 3\n", "cpu0 1 2 3 4\n", "cpu  1 2 3 4 x\n", "cpu  1 -2 3 4\n"} {
		if got, err := parseTicks([]byte(text), nil); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParseMeminfo(f *testing.F) {
	f.Add([]byte(meminfo(16<<20, 4<<20, 5, 4)))
	f.Add([]byte("MemTotal: 1 kB\nMemAvailable: 2 kB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMeminfo(text)
		if used := m.used(); err == nil && !(used >= 0 && used <= 1) {
			t.Errorf("%q: %+v is %v", text, m, used)
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	f.Add([]byte("some avg10=0.44 avg60=0.81 avg300=1.94 total=11915747631\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"))
	f.Add([]byte("some total=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := parsePressure(text)
		if err != nil {
			return
		}
		var g waiting
		g.add(waited{}, noon)
		if some, full, known := g.add(w, noon.Add(2*time.Second)); known && !(some >= 0 && some <= 1 && full >= 0 && full <= 1) {
			t.Errorf("%q: %v %v", text, some, full)
		}
	})
}

func TestParsePressure(t *testing.T) {
	for text, want := range map[string]waited{
		"some avg10=0.44 avg60=0.81 avg300=1.94 total=119\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": {119, 7},
		"some avg10=0.44 avg60=0.81 avg300=1.94 total=119\n":                                                 {119, 0}, // old, cpu
	} {
		if got, err := parsePressure([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\n", "full avg10=0.00 total=7\n", "some avg10=0.44\n", "some total=-1\n", "some total=1 2\n"} {
		if got, err := parsePressure([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	text := "17 (a) (b) c) S 5 16 3 0 -1 4194304 1 2 3 4 150 50 7 -3 20 0 1 0 4711 3133440 403 18446744073709551615 1 1\n"
	var r reading
	if err := parseStat([]byte(text), 4096, &r); err != nil {
		t.Fatal(err)
	}
	if r.parent != 5 || r.session != 3 || r.start != 4711 || r.spent != 2*time.Second || r.children != 70*time.Millisecond ||
		r.rss != 403*4096 || r.zombie || (&row{reading: r}).name() != "a) (b) c" {
		t.Errorf("%+v", r)
	}
	for state, want := range map[string]bool{"Z 5 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1": true, "Z 5 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2": false} {
		if err := parseStat([]byte("1 (x) "+state+" 0 9 0 0\n"), 4096, &r); err != nil || r.zombie != want {
			t.Errorf("%s: %v %v", state, r.zombie, err)
		}
	}
	for _, bad := range []string{
		"", "1 (x", "1 (x)", "1 (x) S", "1 (x) S 1 2 3", strings.Replace(text, "4711", "-4711", 1), strings.Replace(text, " 403 ", " 99999999999999999 ", 1),
		strings.Replace(text, " 150 ", " 9223372036854775807 ", 1), ")x(" + text[:9],
	} {
		if err := parseStat([]byte(bad), 4096, &r); err == nil {
			t.Errorf("%q is not a process", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("17 (a) (b) c) S 5 16 3 0 -1 4194304 1 2 3 4 150 50 7 -3 20 0 1 0 4711 3133440 403 18446744073709551615 1 1\n"))
	f.Add([]byte("1 () Z"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r reading
		if parseStat(text, 4096, &r) == nil && (r.spent < 0 || r.children < 0 || r.rss > absurd) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

func FuzzParseLimits(f *testing.F) {
	f.Add([]byte("Limit  Soft Limit\nMax open files            1024                524288               files     \n"))
	f.Add([]byte("Max open files            unlimited            unlimited            files     \n"))
	if n, ok := parseLimits([]byte("Max processes 5 5\nMax open files            1024                524288               files     \n")); !ok || n != 1024 {
		f.Errorf("%d %v", n, ok)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseLimits(text); ok && n == 0 {
			t.Errorf("%q: no limit is 0", text)
		}
	})
}

func FuzzInotifyWatches(f *testing.F) {
	two := []byte("pos:\t0\nflags:\t02000000\nmnt_id:\t15\nino:\t1057\ninotify wd:2 ino:1 sdev:1\ninotify wd:1 ino:2 sdev:1\n")
	if n := inotifyWatches(two); n != 2 {
		f.Errorf("%d watches", n)
	}
	f.Add(two)
	f.Fuzz(func(t *testing.T, text []byte) {
		if n := inotifyWatches(text); n > uint64(len(text)) {
			t.Errorf("%q: %d", text, n)
		}
	})
}

func FuzzGroups(f *testing.F) {
	f.Add("0::/a/b\n4:memory:/x\n3:cpu,cpuacct:/../y\n", "31 23 0:28 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup rw\n", []byte("max 100000"))
	f.Add("0::/", "31 23 0:28 /.. /a\\040b rw - cgroup cgroup rw,memory\n", []byte("150000 100000\n"))
	f.Fuzz(func(t *testing.T, own, mounts string, quota []byte) {
		members, trees := parseMemberships(own), parseHierarchies(mounts)
		for _, controller := range []string{"", "memory", "cpu"} {
			for _, dir := range chains(controller, members, trees) {
				if ups(dir) > 0 && !strings.Contains(mounts, "..") {
					t.Errorf("%q leads out of the mount point", dir)
				}
			}
		}
		if q, p, ok := parseQuota(quota); ok && !(q > 0 && p > 0) {
			t.Errorf("%q: %v %v", quota, q, p)
		}
	})
}
