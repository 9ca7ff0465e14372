//go:build linux

package torture

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// disk is a file system of its own in a file, which can meet an error as a real one does.
type disk struct {
	*rig.Rig
	image, folder, device string
}

// newDisk mounts one at the folder.
func newDisk(r *rig.Rig, folder string) *disk {
	r.Helper()
	d := &disk{Rig: r, image: r.At("disk.img"), folder: folder}
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		err = os.WriteFile(d.image, nil, 0o600)
	}
	if err == nil {
		err = os.Truncate(d.image, 24<<20)
	}
	if err != nil {
		r.Fatal(err)
	}
	if out, err := r.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		r.Skipf("no ext4 in a file: %v: %s", err, out)
	}
	d.plug()
	return d
}

// plug mounts the disk's present state, through a device of its own.
func (d *disk) plug() {
	d.Helper()
	out, err := d.Command("losetup", "-f", "--show", d.image).CombinedOutput()
	if err != nil {
		d.Skipf("no loop device: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	d.Cleanup(func() { _ = d.Command("losetup", "-d", device).Run() })
	_ = d.Command("e2fsck", "-fy", device).Run()
	if err := syscall.Mount(device, d.folder, "ext4", 0, "errors=remount-ro"); err != nil {
		d.Skipf("mount: %v", err)
	}
	d.Cleanup(func() { _ = syscall.Unmount(d.folder, syscall.MNT_DETACH) })
	d.device = filepath.Base(device)
}

// fail has the disk meet an error: from then on it is read-only, also for open files.
func (d *disk) fail() {
	d.Helper()
	syscall.Sync()
	if err := os.WriteFile(filepath.Join("/sys/fs/ext4", d.device, "trigger_fs_error"), []byte("a test"), 0o200); err != nil {
		d.Skipf("no error can be had: %v", err)
	}
}

// repair is what an administrator does then: check it, and mount it again.
func (d *disk) repair() {
	d.Helper()
	if err := syscall.Unmount(d.folder, syscall.MNT_DETACH); err != nil {
		d.Fatal(err)
	}
	d.plug()
}

// TestFaultDiskError: the project's disk meets an error and turns read-only under the working daemon, is repaired, and
// mounted again. The retry that waited meanwhile comes.
func TestFaultDiskError(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	r := rig.New(t, faultRules(""))
	d := newDisk(r, r.At(ordealProject))
	x := ordealIn(r)
	x.hire()
	p := x.Start(ordealProject)
	x.order(6)
	x.Until("all is through", func() bool { return x.open() == 0 })
	late := x.later()
	x.Until("a retry waits", func() bool { return x.filed(late) })
	x.agent.Kill() // it has nothing to do, and would go on working on the disk that is about to be taken away
	d.fail()
	x.Until("the human is told", func() bool { return x.toldOf(`read-only`) })
	before := cpuTime(p, t)
	x.Pause(2 * time.Second)
	if used := cpuTime(p, t) - before; used > 700*time.Millisecond {
		t.Errorf("in 2 s the daemon used %v of a processor: it spins", used)
	}
	d.repair()
	x.hire()
	x.order(6)
	x.laws()
	if !p.Alive() {
		t.Error("the daemon has ended")
	}
}

// TestFaultNoSpace: the disk of the state folder, or of the project, is full to the last block while tasks are at work,
// and has room again later.
func TestFaultNoSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	for _, place := range []string{"state", "project"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, faultRules(""))
			folder := r.State
			if place == "project" {
				folder = r.At(ordealProject)
			}
			mountDisk(r, "tmpfs", folder, "tmpfs", 0, "size=4m,mode=700")
			x := ordealIn(r)
			x.hire()
			p := x.Start(ordealProject)
			x.order(6)
			x.Until("all is through", func() bool { return x.open() == 0 })
			if place == "project" {
				x.agent.Kill() // its beats would be torn
			}
			late := x.later()
			fail := func() {}
			if place == "project" { // the agent's one run, for which it would have no room
				rig.AppendLine(x.At(ordealProject, "runs.log"), late+" run 1")
				fail = stageFile(x.torture.Rig, x.Task(ordealProject, late, ".result.json"), rig.ResultOf(late, "LATER"))
			} else {
				x.Until("a retry waits", func() bool { return x.filed(late) })
			}
			free := fillDisk(x.torture.Rig, folder)
			fail()
			if place == "state" {
				x.order(6)
			}
			x.Until("the status page says so", func() bool { s, err := x.Status(); return err == nil && rig.Found(s.Raw, `(?i)no space left`) == nil })
			before := cpuTime(p, t)
			x.Pause(5 * time.Second) // the retry falls due meanwhile
			if used := cpuTime(p, t) - before; used > 1500*time.Millisecond {
				t.Errorf("in 5 s the daemon used %v of a processor: it spins", used)
			}
			free()
			if place == "project" {
				x.hire()
				x.order(6)
			}
			x.laws()
			if !p.Alive() {
				t.Error("the daemon has ended")
			}
			if !x.toldOf(`(?i)no space left|disk is full|cannot save`) {
				t.Error("the human was not told")
			}
		})
	}
}

// TestFaultHanging: the kernel answers nothing about one project's folder for longer than steward is patient. The other
// project's work goes on, the human is told, and when the folder answers again its work goes on too.
func TestFaultHanging(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	if os.Getenv("STEWARD_LONG") != "1" {
		t.Skip("steward is patient with a folder for 30 s: in long runs only")
	}
	t.Parallel()
	strace := tracer(t)
	x := newOrdeal(t, faultRules(""))
	x.Boot("q")
	x.hire()
	hung := x.At(ordealProject, "tmp/agent_status/codex_tasks")
	p := x.Spawn(x.Command(strace, "-D", "-f", "-o", os.DevNull, "-P", hung, "-e", "trace=getdents64", "-e", "inject=getdents64:delay_enter=50000000:when=6",
		"steward", "run", "--project", ordealProject, "--project", "q"))
	x.Until("the daemon answers", func() bool { return !p.Alive() || x.Answers() })
	x.order(6)
	slowly(x.torture.Rig, "the human is told", func() bool {
		// The sixth reading of the folder hangs. Further changes make it come, however many of the orders one reading saw.
		x.Put(x.Task(ordealProject, "changed", ".txt"), rig.Doc{})
		return x.toldOf(`(?i)does not answer`)
	})
	x.Put(x.Task("q", rig.TaskID(900), ".request.json"), rig.RequestOf(rig.TaskID(900), 1))
	x.Outcome("q", rig.TaskID(900), "FILE_NOT_FOUND")
	x.Until("the other project is served", func() bool { return isRetried(x.torture.Rig, "q", rig.TaskID(900)) })
	slowly(x.torture.Rig, "all is through", func() bool { return x.open() == 0 })
}
