package push

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxPress limits the body of a press, in bytes.
const maxPress = 1024

// wire encodes keys and options, because they may contain spaces. It is strict, so that a press has only one
// encoding.
var wire = base64.RawURLEncoding.Strict()

// seal returns "<key> <rev> <option> <mac>", and reports whether open would accept it. See docs/decisions.md, "Buttons of ntfy messages are signed".
func (n *Ntfy) seal(p Press) (body string, ok bool) {
	if p.Key == "" || p.Option == "" || p.Rev < 1 {
		return "", false
	}
	body = strings.Join([]string{wire.EncodeToString([]byte(p.Key)), strconv.Itoa(p.Rev),
		wire.EncodeToString([]byte(p.Option)), n.mac(p)}, " ")
	return body, len(body) <= maxPress
}

// open parses and verifies a body, which anybody may have written.
func (n *Ntfy) open(body string) (Press, bool) {
	if len(body) > maxPress {
		return Press{}, false
	}
	fields := strings.Split(body, " ")
	if len(fields) != 4 {
		return Press{}, false
	}
	key, err := wire.DecodeString(fields[0])
	if err != nil || strings.ContainsAny(body, "\r\n") { // base64 ignores line breaks
		return Press{}, false
	}
	rev, err := strconv.Atoi(fields[1])
	if err != nil || rev < 1 || strconv.Itoa(rev) != fields[1] {
		return Press{}, false
	}
	option, err := wire.DecodeString(fields[2])
	p := Press{Key: string(key), Rev: rev, Option: string(option)}
	if err != nil || p.Key == "" || p.Option == "" || !hmac.Equal([]byte(fields[3]), []byte(n.mac(p))) {
		return Press{}, false
	}
	return p, true
}

// mac authenticates a press of a button that was made with our key. The lengths distinguish "ab","c" from "a","bc".
func (n *Ntfy) mac(p Press) string {
	h := hmac.New(sha256.New, n.key)
	for _, field := range []string{p.Key, strconv.Itoa(p.Rev), p.Option} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		h.Write(length[:])
		h.Write([]byte(field))
	}
	return hex.EncodeToString(h.Sum(nil))
}
