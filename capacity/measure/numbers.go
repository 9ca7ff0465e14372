package measure

import "bytes"

// The kernel's texts are parsed many times a second, so these parsers do not allocate.

// number parses a decimal number at the front of b, after blanks. A number above 2^63-1, or one not followed by white
// space or the end, is invalid.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t")
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		digit := uint64(b[i] - '0')
		if n > (1<<63-1-digit)/10 {
			return 0, nil, false
		}
		n = n*10 + digit
	}
	if i == 0 || i < len(b) && b[i] != ' ' && b[i] != '\n' && b[i] != '\t' {
		return 0, nil, false
	}
	return n, b[i:], true
}

// single parses a text that is one number.
func single(b []byte) (uint64, bool) {
	n, rest, ok := number(b)
	return n, ok && len(bytes.TrimSpace(rest)) == 0
}

// entry returns the number after a name at the start of a line: "inactive_file 4096".
func entry(text []byte, name string) (uint64, bool) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if len(line) > len(name) && line[len(name)] == ' ' && string(line[:len(name)]) == name {
			return single(line[len(name):])
		}
	}
	return 0, false
}
