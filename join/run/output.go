package run

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// excerpt keeps the head and the tail of a stream and counts the rest.
type excerpt struct {
	mu   sync.Mutex
	keep int
	head []byte // the first half
	ring []byte // the latest bytes after the head, at most the other half
	next int    // the next write position in a full ring
	all  int64
}

func newExcerpt(keep int) *excerpt { return &excerpt{keep: keep} }

// Write never fails.
func (x *excerpt) Write(p []byte) (int, error) {
	x.add(p)
	return len(p), nil
}

// add does not retain p.
func (x *excerpt) add(p []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all += int64(len(p))
	if room := (x.keep+1)/2 - len(x.head); room > 0 {
		n := min(room, len(p))
		x.head = append(x.head, p[:n]...)
		p = p[n:]
	}
	size := x.keep / 2
	p = p[max(0, len(p)-size):]
	if room := size - len(x.ring); room > 0 {
		n := min(room, len(p))
		x.ring = append(x.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(x.ring[x.next:], p)
		p = p[n:]
		x.next = (x.next + n) % size
	}
}

// output converts the kept bytes to text.
func (x *excerpt) output() Output {
	x.mu.Lock()
	defer x.mu.Unlock()
	tail := append(append([]byte{}, x.ring[x.next:]...), x.ring[:x.next]...)
	if x.all == int64(len(x.head)+len(tail)) {
		return Output{Text: clean(append(x.head[:len(x.head):len(x.head)], tail...)), Bytes: x.all}
	}
	head, tail := wholeEnd(x.head), wholeStart(tail)
	gap := fmt.Sprintf("\n[… %d bytes left out …]\n", x.all-int64(len(head)+len(tail)))
	return Output{Text: clean(head) + gap + clean(tail), Bytes: x.all, Cut: true}
}

// clean converts bytes to valid UTF-8 without NUL.
func clean(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}

// wholeEnd removes a truncated character at the end.
func wholeEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// wholeStart removes the rest of a truncated character at the start.
func wholeStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
