package doctor

import (
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
	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/status/terminal"
	"golang.org/x/sys/unix"
)

// watches makes a watch as the daemon would, on a folder that always exists.
func (d *facts) watches(context.Context) []Finding {
	w, err := watch.New()
	if err == nil {
		err = w.Add(string(filepath.Separator))
		w.Close()
	}
	return judgeWatches(err, d.cfg.Policies().LookUnwatched())
}

func judgeWatches(err error, lookEvery time.Duration) []Finding {
	do := "find out what forbids it"
	switch {
	case err == nil:
		return []Finding{working("watches", "folders can be watched")}
	case errors.Is(err, watch.ErrNoWatches):
		do = "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512; keep it in /etc/sysctl.d/"
	}
	return []Finding{warning("watches", do, "folders cannot be watched, so changes are seen within %s instead of at once: %v", lookEvery, err)}
}

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

// descriptors judges the open files of the daemon, or else the limit that a daemon started here would have.
func (d *facts) descriptors(context.Context) []Finding {
	if open, limit, ok := daemonDescriptors(d.beat.PID); ok && d.daemon.doc != nil {
		return judgeDescriptors(open, limit, fmt.Sprintf("the daemon has %d of %d", open, limit))
	}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return nil
	}
	return judgeDescriptors(0, uint64(r.Cur), fmt.Sprintf("at most %d", r.Cur))
}

// daemonDescriptors reads /proc; elsewhere than on Linux it is not ok.
func daemonDescriptors(pid int) (open, limit uint64, ok bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err1 := os.ReadDir(filepath.Join(dir, "fd"))
	text, err2 := os.ReadFile(filepath.Join(dir, "limits"))
	_, rest, _ := strings.Cut(string(text), "Max open files")
	_, err3 := fmt.Sscan(rest, &limit)
	return uint64(len(fds)), limit, errors.Join(err1, err2, err3) == nil
}

// fewDescriptors: a lower limit is too low for a socket with many clients, plus journals and folders.
const fewDescriptors = 1024

func judgeDescriptors(open, limit uint64, text string) []Finding {
	if limit < fewDescriptors || open*10 >= limit*9 {
		return []Finding{warning("open files", "raise it: LimitNOFILE in systemctl edit steward (--user for your own), or ulimit -n", "%s: that is little", text)}
	}
	return []Finding{working("open files", "%s", text)}
}

// samplePause is the time between two samples of the gauges, over which the processor load is measured.
const samplePause = 300 * time.Millisecond
