package desktop

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/godbus/dbus/v5"
)

// signalFrom returns a signal message as the bus delivers it.
func signalFrom(t testing.TB, sender, path string, order binary.ByteOrder) []byte {
	t.Helper()
	m := &dbus.Message{Type: dbus.TypeSignal, Body: []any{uint32(1), "x"}, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldInterface: dbus.MakeVariant(serverName), dbus.FieldMember: dbus.MakeVariant("ActionInvoked"),
		dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(path)), dbus.FieldSender: dbus.MakeVariant(sender),
		dbus.FieldSignature: dbus.MakeVariant(dbus.ParseSignatureMust("us")),
	}}
	var b bytes.Buffer
	if err := m.EncodeTo(&b, order); err != nil {
		t.Fatal(err)
	}
	// godbus sets the serial 0, which is invalid.
	order.PutUint32(b.Bytes()[8:], 7)
	return b.Bytes()
}

// sieved returns the part of a stream that passes.
func sieved(t testing.TB, stream []byte) (passed []byte, refused uint64) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			for part := range bytes.SplitAfterSeq(stream, []byte("R")) { // lines and messages arrive in pieces
				_, _ = c.Write(part)
			}
			c.Close()
		}
	}()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var count atomic.Uint64
	s := newSieve(c, &count)
	s.trust(":1.5")
	passed, _ = io.ReadAll(s)
	return passed, count.Load()
}

func TestSieve(t *testing.T) {
	long := "/" + string(bytes.Repeat([]byte("a"), 2*sieveSize))
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		ours, theirs := signalFrom(t, ":1.5", serverPath, order), signalFrom(t, ":1.55", serverPath, order)
		bus, huge := signalFrom(t, busName, "/", order), signalFrom(t, ":1.55", long, order)
		greeting := []byte("REJECTED EXTERNAL DBUS_COOKIE_SHA1\r\nOK 1234lB\r\n")
		got, refused := sieved(t, bytes.Join([][]byte{greeting, theirs, ours, huge, theirs, bus, theirs}, nil))
		if want := bytes.Join([][]byte{greeting, ours, bus}, nil); !bytes.Equal(got, want) || refused != 4 {
			t.Errorf("%v: passed %d bytes, want %d; refused %d, want 4", order, len(got), len(want), refused)
		}
	}
}

func FuzzSender(f *testing.F) {
	f.Add(signalFrom(f, ":1.5", serverPath, binary.LittleEndian))
	f.Add(signalFrom(f, ":1.5", serverPath, binary.LittleEndian)[:40])
	f.Add([]byte("0123456789abcdef\x07\x01s\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, head []byte) {
		got := senderOf(head, binary.LittleEndian)
		m, err := dbus.DecodeMessage(bytes.NewReader(head))
		if err != nil || got == nil {
			return
		}
		if v, ok := m.Headers[dbus.FieldSender].Value().(string); ok && v != string(got) {
			t.Errorf("%q, godbus reads %q", got, v)
		}
	})
}

// BenchmarkSieve measures the cost of a stranger's signal.
func BenchmarkSieve(b *testing.B) {
	theirs := signalFrom(b, ":1.55", serverPath, binary.LittleEndian)
	for b.Loop() {
		if senderOf(theirs, binary.LittleEndian) == nil {
			b.Fatal("nobody")
		}
	}
}

// BenchmarkDecode measures the cost of a stranger's signal without the sieve.
func BenchmarkDecode(b *testing.B) {
	theirs := signalFrom(b, ":1.55", serverPath, binary.LittleEndian)
	for b.Loop() {
		if _, err := dbus.DecodeMessage(bytes.NewReader(theirs)); err != nil {
			b.Fatal(err)
		}
	}
}
