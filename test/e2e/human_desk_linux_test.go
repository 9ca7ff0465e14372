package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/godbus/dbus/v5"
)

// desk is where a human sits: a display, a session bus, a notification server and a sound server, all real and all of
// the test's own, and the program as it is built for users.
type desk struct {
	*rig.Room
	artifacts string // what is kept: $STEWARD_ARTIFACTS, else it goes with the test
	busd      *rig.Child
	ear       string // what the loudspeaker plays: raw, 16 bit, mono
	glance    *glance
}

// earRate is in samples a second.
const earRate = 22050

// deskTools are what packaging/ci/test-deps.sh installs for this.
var deskTools = []string{"Xvfb", "dbus-daemon", "pulseaudio", "pactl", "parec", "paplay", "espeak-ng", "xdotool", "import", "display"}

// newDesk builds the program and sets up the desktop; without its tools the test is skipped.
func newDesk(t *testing.T, config string) *desk {
	if os.Getenv("STEWARD_HEADLESS") != "1" {
		t.Skip("STEWARD_HEADLESS is not 1; packaging/ci/test-deps.sh installs what it needs")
	}
	for _, tool := range deskTools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here", tool)
		}
	}
	server, _ := filepath.Glob("/usr/lib/*/xfce4/notifyd/xfce4-notifyd")
	if len(server) == 0 {
		t.Skip("no xfce4-notifyd here")
	}
	h := &desk{Room: &rig.Room{Rig: rig.New(t, config)}, artifacts: os.Getenv("STEWARD_ARTIFACTS")}
	if h.artifacts == "" {
		h.artifacts = t.TempDir()
	}
	if err := errors.Join(os.Mkdir(h.At("home"), 0o700), os.MkdirAll(h.artifacts, 0o755)); err != nil {
		t.Fatal(err)
	}
	h.Env = append(h.Env, "XDG_RUNTIME_DIR="+filepath.Dir(h.Socket), "NO_AT_BRIDGE=1", "GSETTINGS_BACKEND=memory", "LANG=C.UTF-8")
	h.light()
	h.connect()
	h.listen()
	h.Spawn(h.Command(server[0]))
	h.Until("the notification server", func() bool { return h.glance.owned() })
	return h
}

// light starts the display; it picks a free number, and gets a plain background.
func (h *desk) light() {
	read, write, err := os.Pipe()
	if err != nil {
		h.Fatal(err)
	}
	defer read.Close()
	c := h.Command("Xvfb", "-displayfd", "3", "-screen", "0", "1024x640x24", "-nolisten", "tcp")
	c.ExtraFiles = []*os.File{write}
	h.Spawn(c)
	write.Close()
	number, err := io.ReadAll(read) // it closes its end when it is ready, or ended
	if err != nil || len(number) == 0 {
		h.Fatalf("Xvfb: %q, %v", number, err)
	}
	h.Env = append(h.Env, "DISPLAY=:"+strings.TrimSpace(string(number)))
	_ = h.Command("display", "-window", "root", "-size", "64x64", "xc:#3d5a80").Run() // it ends with 1 when it has done so
}

// connect starts the bus, which also starts the notification server's own settings service, and watches it.
func (h *desk) connect() {
	h.Bus = "unix:path=" + filepath.Join(filepath.Dir(h.Socket), "bus")
	h.Env = append(h.Env, "DBUS_SESSION_BUS_ADDRESS="+h.Bus)
	h.busd = h.Spawn(h.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--address="+h.Bus))
	var err error
	h.Until("the bus", func() bool { h.glance, err = watchBus(h.Bus); return err == nil })
	h.Cleanup(func() { h.glance.conn.Close(); h.glance.monitor.Close() })
}

// listen starts the sound server, whose only loudspeaker is recorded from now on.
func (h *desk) listen() {
	socket := filepath.Join(filepath.Dir(h.Socket), "pulse.sock")
	h.Write("ear.pa", "load-module module-null-sink sink_name=ear\nload-module module-native-protocol-unix auth-anonymous=1 socket="+socket+"\n")
	h.Env = append(h.Env, "PULSE_SERVER=unix:"+socket)
	h.Spawn(h.Command("pulseaudio", "-n", "--use-pid-file=0", "--exit-idle-time=-1", "--disable-shm=1", "-F", h.At("ear.pa")))
	h.Until("the sound server", func() bool { return h.Command("pactl", "list", "short", "sinks").Run() == nil })
	h.ear = h.At("ear.raw")
	out, err := os.Create(h.ear)
	if err != nil {
		h.Fatal(err)
	}
	defer out.Close()
	c := h.Command("parec", "-d", "ear.monitor", "--raw", "--format=s16le", fmt.Sprintf("--rate=%d", earRate), "--channels=1", "--latency-msec=10")
	c.Stdout, c.Stderr = out, h.Logs
	h.Spawn(c)
	h.Until("the recording runs", func() bool { st, err := os.Stat(h.ear); return err == nil && st.Size() > 0 })
}

// loudness is the RMS of what was heard so far, 1 being full scale, and how long it lasted; silence at both ends would
// water it down and is left out.
func (h *desk) loudness() (rms float64, length time.Duration) {
	data, err := os.ReadFile(h.ear)
	if err != nil {
		h.Fatal(err)
	}
	first, last := -1, -1
	samples := make([]float64, len(data)/2)
	for i := range samples {
		samples[i] = float64(int16(binary.LittleEndian.Uint16(data[2*i:]))) / (1 << 15)
		if math.Abs(samples[i]) > 0.01 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return 0, 0
	}
	sum := 0.0
	for _, s := range samples[first : last+1] {
		sum += s * s
	}
	n := last + 1 - first
	return math.Sqrt(sum / float64(n)), time.Duration(n) * time.Second / earRate
}

// windows lists the popups on the display.
func (h *desk) windows() []string {
	out, _ := h.Command("xdotool", "search", "--onlyvisible", "--class", "xfce4-notifyd").Output() // fails while there is none
	return strings.Fields(string(out))
}

// place is where the only popup stands; false while it is not the only one.
func (h *desk) place() (image.Rectangle, bool) {
	all := h.windows()
	if len(all) != 1 {
		return image.Rectangle{}, false
	}
	out, err := h.Command("xdotool", "getwindowgeometry", "--shell", all[0]).Output()
	if err != nil {
		return image.Rectangle{}, false // gone meanwhile
	}
	at := map[string]int{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		at[name], _ = strconv.Atoi(value)
	}
	return image.Rect(at["X"], at["Y"], at["X"]+at["WIDTH"], at["Y"]+at["HEIGHT"]), true
}

// shot photographs the whole display.
func (h *desk) shot(file string) image.Image {
	if out, err := h.Command("import", "-window", "root", file).CombinedOutput(); err != nil {
		h.Fatalf("import: %v\n%s", err, out)
	}
	f, err := os.Open(file)
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		h.Fatal(err)
	}
	return img
}

// buttons finds the middles of the popup's buttons, from left to right, as an eye does: in the row where
// xfce4-notifyd puts them, what is not background.
func buttons(img image.Image, popup image.Rectangle) (all []image.Point) {
	const fromBelow, least = 31, 20 // pixels
	y := popup.Max.Y - fromBelow
	ground := img.At(popup.Min.X+5, y)
	begin := -1
	for x := popup.Min.X + 5; x < popup.Max.X; x++ {
		switch plain := img.At(x, y) == ground; {
		case !plain && begin < 0:
			begin = x
		case plain && begin >= 0:
			if x-begin >= least {
				all = append(all, image.Pt((begin+x)/2, y))
			}
			begin = -1
		}
	}
	return all
}

// sees waits until the only popup has so many buttons, keeps a photograph, and gives what stands where.
func (h *desk) sees(name string, options int) (popup image.Rectangle, at []image.Point) {
	h.Helper()
	file := filepath.Join(h.artifacts, name+".png")
	h.Until("the popup with its buttons", func() bool {
		var only bool
		if popup, only = h.place(); !only {
			return false
		}
		at = buttons(h.shot(file), popup)
		return len(at) == options
	})
	return popup, at
}

// click takes the mouse to a place of the display and presses its button there, once or several times.
func (h *desk) click(p image.Point, times int) {
	h.Helper()
	out, err := h.Command("xdotool", "mousemove", fmt.Sprint(p.X), fmt.Sprint(p.Y), "click", "--delay", "5", "--repeat", fmt.Sprint(times), "1").CombinedOutput()
	if err != nil {
		h.Fatalf("%v: %s", err, out)
	}
}

// glance sees what goes over the bus.
type glance struct {
	conn, monitor *dbus.Conn
	mu            sync.Mutex
	opened        []notification
	presses       int
}

// notification is what the notification server was told to show.
type notification struct {
	replaces    uint32
	title, text string
	labels      []string
}

func watchBus(address string) (*glance, error) {
	conn, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	monitor, err := dbus.Connect(address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	g := &glance{conn: conn, monitor: monitor}
	err = monitor.BusObject().Call("org.freedesktop.DBus.Monitoring.BecomeMonitor", 0,
		[]string{"interface='" + rig.BoardName + "',member='Notify'", "interface='" + rig.BoardName + "',member='ActionInvoked'"}, uint32(0)).Err
	if err != nil {
		return nil, errors.Join(err, conn.Close(), monitor.Close())
	}
	messages := make(chan *dbus.Message, 1000)
	monitor.Eavesdrop(messages)
	go g.read(messages)
	return g, nil
}

// read ends with the connection, which closes the channel.
func (g *glance) read(messages <-chan *dbus.Message) {
	for m := range messages {
		g.mu.Lock()
		switch member, _ := m.Headers[dbus.FieldMember].Value().(string); {
		case member == "ActionInvoked":
			g.presses++
		case member == "Notify" && len(m.Body) >= 6:
			n := notification{}
			n.replaces, _ = m.Body[1].(uint32)
			n.title, _ = m.Body[3].(string)
			n.text, _ = m.Body[4].(string)
			actions, _ := m.Body[5].([]string)
			for i := 1; i < len(actions); i += 2 {
				n.labels = append(n.labels, actions[i])
			}
			g.opened = append(g.opened, n)
		}
		g.mu.Unlock()
	}
}

func (g *glance) owned() (yes bool) {
	_ = g.conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, rig.BoardName).Store(&yes)
	return yes
}

// all gives what was to be shown so far, and how many presses the server reported.
func (g *glance) all() (opened []notification, presses int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(opened, g.opened...), g.presses
}
