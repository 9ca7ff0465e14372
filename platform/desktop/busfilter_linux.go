package desktop

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"

	"github.com/godbus/dbus/v5"
)

// sieveSize limits the parsed header of a message. Legitimate headers have about 200 bytes.
const sieveSize = 16 << 10

// busFilter is the socket to the bus without unsolicited messages of other programs. Any program of this user can
// address signals and calls to us, faster than godbus decodes them (measured: 16 µs each; and it starts a goroutine
// per call). The bus would queue the rest and, at its limit, drop the legitimate press behind them. The bus itself
// sets the sender's name, and checking only the name is faster than any bus can send. One goroutine uses a busFilter,
// except for trusted.
type busFilter struct {
	*net.UnixConn
	in      *bufio.Reader
	left    int  // remaining bytes of the current message that pass
	line    bool // inside a line: the bus sends lines until authentication is complete
	trusted atomic.Pointer[string]
	refused *atomic.Uint64
}

func newSieve(sock *net.UnixConn, refused *atomic.Uint64) *busFilter {
	return &busFilter{UnixConn: sock, in: bufio.NewReaderSize(sock, sieveSize), refused: refused}
}

// trust sets the program whose signals pass, in addition to the bus.
func (s *busFilter) trust(owner string) { s.trusted.Store(&owner) }

func (s *busFilter) Read(p []byte) (int, error) {
	for s.left == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// next finds the next message that passes and discards those before it.
func (s *busFilter) next() error {
	first, err := s.in.Peek(1)
	if err != nil {
		return err
	}
	if s.line || first[0] != 'l' && first[0] != 'B' { // no line of the handshake starts with a message's byte-order mark
		text, _ := s.in.Peek(s.in.Buffered())
		end := bytes.IndexByte(text, '\n')
		if s.line = end < 0; s.line {
			end = len(text) - 1
		}
		s.left = end + 1
		return nil
	}
	head, err := s.in.Peek(16)
	if err != nil {
		return err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[0] == 'B' {
		order = binary.BigEndian
	}
	kind, body, fields := dbus.Type(head[1]), order.Uint32(head[4:]), order.Uint32(head[12:])
	header := 16 + (uint64(fields)+7)/8*8
	size := header + uint64(body)
	if size > 1<<27 {
		return errors.New("the bus sent a message over the limit of D-Bus")
	}
	if kind == dbus.TypeSignal || kind == dbus.TypeMethodCall {
		known, err := s.known(header, 16+int(fields), order)
		if err != nil {
			return err
		}
		if !known {
			s.refused.Add(1)
			_, err := s.in.Discard(int(size))
			return err
		}
	}
	s.left = int(size)
	return nil
}

// known reports whether the next message comes from the bus or from the server.
func (s *busFilter) known(header uint64, end int, order binary.ByteOrder) (bool, error) {
	if header > sieveSize {
		return false, nil
	}
	head, err := s.in.Peek(end)
	if err != nil {
		return false, err
	}
	sender := senderOf(head, order)
	owner := s.trusted.Load()
	return string(sender) == busName || owner != nil && *owner != "" && string(sender) == *owner, nil
}

// senderOf returns the sender in a message header: fields of a number and a variant, each aligned to 8 bytes. The bus
// removes or rejects what the specification does not define; an unknown type therefore ends the search without a
// sender.
func senderOf(head []byte, order binary.ByteOrder) []byte {
	for at := 16; at+4 <= len(head); at = (at + 7) / 8 * 8 {
		field, kind := dbus.HeaderField(head[at]), head[at+2]
		if head[at+1] != 1 {
			return nil
		}
		at += 4
		switch kind {
		case 'g':
			if at >= len(head) {
				return nil
			}
			at += int(head[at]) + 2
		case 's', 'o', 'u':
			if at+4 > len(head) {
				return nil
			}
			size := uint64(order.Uint32(head[at:]))
			at += 4
			if kind == 'u' {
				continue
			}
			if uint64(at)+size+1 > uint64(len(head)) {
				return nil
			}
			if field == dbus.FieldSender {
				return head[at : at+int(size)]
			}
			at += int(size) + 1
		default:
			return nil
		}
	}
	return nil
}
