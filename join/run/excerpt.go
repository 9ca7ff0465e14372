package run

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// excerpt keeps the head and the tail of a stream and counts the rest.
type excerpt struct {
	mu   sync.Mutex
	keep int
	head []byte // the first half
	tail []byte // the latest bytes after the head; its last keep/2 bytes count
	all  int64
}

func newExcerpt(keep int) *excerpt { return &excerpt{keep: keep} }

// Write never fails and does not retain p.
func (x *excerpt) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	written := len(p)
	x.all += int64(written)
	n := min((x.keep+1)/2-len(x.head), len(p))
	x.head, p = append(x.head, p[:n]...), p[n:]
	size := x.keep / 2
	x.tail = append(x.tail, p[max(0, len(p)-size):]...)
	if len(x.tail) > 2*size { // rarely, so that each byte is moved about once
		x.tail = x.tail[:copy(x.tail, x.tail[len(x.tail)-size:])]
	}
	return written, nil
}

// output converts the kept bytes to text.
func (x *excerpt) output() Output {
	x.mu.Lock()
	defer x.mu.Unlock()
	tail := x.tail[max(0, len(x.tail)-x.keep/2):]
	if x.all == int64(len(x.head)+len(tail)) {
		return Output{Text: clean(slices.Concat(x.head, tail)), Bytes: x.all}
	}
	head, tail := trimEnd(x.head), trimStart(tail)
	gap := fmt.Sprintf("\n[… %d bytes left out …]\n", x.all-int64(len(head)+len(tail)))
	return Output{Text: clean(head) + gap + clean(tail), Bytes: x.all, Cut: true}
}

// clean converts bytes to valid UTF-8 without NUL.
func clean(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}

// trimEnd removes a truncated character at the end.
func trimEnd(b []byte) []byte {
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

// trimStart removes the rest of a truncated character at the start.
func trimStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
