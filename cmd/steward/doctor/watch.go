package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/status/terminal"
)

// watchFacts are what the kernel allows this user for watching folders, and how much of it is in use. -1: unknown.
type watchFacts struct {
	err                           error // the error of a trial watch
	watches, maxWatches           int
	instances, maxInstances       int
	lookEvery                     time.Duration
	othersHidden, anotherPlatform bool
}

func (d *facts) watches(ctx context.Context) []Finding {
	f := watchFacts{err: tryWatch(), lookEvery: d.cfg.Policies().LookUnwatched()}
	f.maxWatches, f.maxInstances = sysctl("max_user_watches"), sysctl("max_user_instances")
	f.anotherPlatform = f.maxWatches < 0
	if !f.anotherPlatform {
		f.watches, f.instances, f.othersHidden = inotifyUse(ctx, "/proc", d.uid)
	}
	return judgeWatches(f)
}

// tryWatch creates a watch as the daemon would, on a folder that always exists.
func tryWatch() error {
	w, err := watch.New()
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Add(string(filepath.Separator))
}

func sysctl(name string) int {
	text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return n
}

// inotifyUse counts what the user's processes hold, as far as it may read them. A queue that several processes share is
// counted once for each.
func inotifyUse(ctx context.Context, proc string, uid int) (watches, instances int, hidden bool) {
	pids, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, dir := range pids {
		info, err := os.Stat(dir)
		if err != nil || platform.OwnerOf(info) != uid {
			continue
		}
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		hidden = hidden || err != nil && !errors.Is(err, os.ErrNotExist) || ctx.Err() != nil
		for _, fd := range fds {
			if to, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name())); to != "anon_inode:inotify" || ctx.Err() != nil {
				continue
			}
			text, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
			instances++
			watches += bytes.Count(text, []byte("inotify wd:"))
		}
	}
	return watches, instances, hidden
}

// fewWatches is the default limit of some systems, which one large project can use up.
const fewWatches = 8192

func judgeWatches(f watchFacts) []Finding {
	const name, more = "watches", "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512; keep it in /etc/sysctl.d/"
	late := fmt.Sprintf("changes are seen within %s instead of at once", f.lookEvery)
	if f.err != nil {
		do := "find out what forbids it"
		if errors.Is(f.err, watch.ErrNoWatches) {
			do = more
		}
		return []Finding{warning(name, do, "folders cannot be watched, so %s: %v", late, f.err)}
	}
	if f.anotherPlatform {
		return []Finding{working(name, "folders can be watched")}
	}
	about := ""
	if f.othersHidden {
		about = "at least "
	}
	use := fmt.Sprintf("%s%d of %d watches and %d of %d queues are in use by you", about, f.watches, f.maxWatches, f.instances, f.maxInstances)
	switch {
	case isNearly(f.watches, f.maxWatches), isNearly(f.instances, f.maxInstances):
		return []Finding{warning(name, more, "they run out, and then %s: %s", late, use)}
	case f.maxWatches < fewWatches:
		return []Finding{warning(name, more, "the limit is low: %s", use)}
	}
	return []Finding{working(name, "folders can be watched; %s", use)}
}

// isNearly reports whether nine tenths of the limit are used.
func isNearly(used, limit int) bool { return limit >= 0 && used*10 >= limit*9 }

func (d *facts) gauges(ctx context.Context) []Finding {
	var paths []string
	for _, p := range d.projects {
		paths = append(paths, p.ref.Path)
	}
	g := measure.New(paths...)
	g.Sample(d.now)
	if cli.Sleep(ctx, samplePause) != nil {
		return nil
	}
	load := g.Sample(time.Now())
	return judgeGauges(load, g.Problems(), d.cfg.Capacity, len(paths) > 0)
}

func judgeGauges(load capacity.Load, problems map[string]string, limit capacity.Config, projects bool) []Finding {
	var known []string
	var all []Finding
	for _, name := range capacity.Dimensions() {
		used := load.Share(name)
		binds := limit.Dimensions == nil || slices.Contains(limit.Dimensions, name)
		most, of := limit.Threshold, ""
		if name == capacity.DimDisk {
			if full := limit.FullDisks(load.Disks); len(full) > 0 {
				of = " of " + strings.Join(full, ", ")
			}
			if most = max(most, limit.DiskLimit); len(load.Disks) > 0 && len(limit.FullDisks(load.Disks)) == 0 {
				most = 1 // enough is free
			}
		}
		switch {
		case used.Known() && binds && used.Or(0) > most:
			all = append(all, warning(name, "see who uses it: steward capacity; the limits stand under [capacity]",
				"it is at %s right now, over %.0f %%, so new tasks%s wait", terminal.Share(used), 100*most, of))
		case used.Known():
			known = append(known, name+" "+terminal.Share(used))
		case name == capacity.DimDisk && !projects: // without projects there is no disk to measure
		case binds:
			all = append(all, warning(name, "steward works without it, and holds no task back for it", "it is unknown: %s", problems[name]))
		}
	}
	if len(known) > 0 {
		all = slices.Insert(all, 0, working("gauges", "%s", strings.Join(known, ", ")))
	}
	return all
}

// descriptorFacts are the open files of the daemon, or else the limit that a daemon started here would have.
type descriptorFacts struct {
	open, limit uint64
	ofDaemon    bool
}

func (d *facts) descriptors(context.Context) []Finding {
	if f, ok := daemonDescriptors("/proc", d.beat.PID); d.daemon.doc != nil && ok {
		return judgeDescriptors(f)
	}
	limit, ok := descriptorLimit()
	if !ok {
		return nil
	}
	return judgeDescriptors(descriptorFacts{limit: limit})
}

func daemonDescriptors(proc string, pid int) (descriptorFacts, bool) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	fds, err1 := os.ReadDir(filepath.Join(dir, "fd"))
	text, err2 := os.ReadFile(filepath.Join(dir, "limits"))
	_, rest, found := strings.Cut(string(text), "Max open files")
	fields := strings.Fields(rest)
	if err1 != nil || err2 != nil || !found || len(fields) == 0 {
		return descriptorFacts{}, false
	}
	limit, err := strconv.ParseUint(fields[0], 10, 64)
	return descriptorFacts{open: uint64(len(fds)), limit: limit, ofDaemon: true}, err == nil
}

// fewDescriptors: a lower limit is too low for a socket with many clients, plus journals and folders.
const fewDescriptors = 1024

func judgeDescriptors(f descriptorFacts) []Finding {
	const name = "open files"
	do := "raise it: LimitNOFILE in systemctl edit steward (--user for your own), or ulimit -n"
	text := fmt.Sprintf("at most %d", f.limit)
	if f.ofDaemon {
		text = fmt.Sprintf("the daemon has %d of %d", f.open, f.limit)
	}
	if f.limit < fewDescriptors || f.open*10 >= f.limit*9 {
		return []Finding{warning(name, do, "%s: that is little", text)}
	}
	return []Finding{working(name, "%s", text)}
}

// samplePause is the time between two samples of the gauges, over which the processor load is measured.
const samplePause = 300 * time.Millisecond
