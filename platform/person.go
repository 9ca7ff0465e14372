package platform

import (
	"os/user"
	"strings"
	"unicode"
)

// Person returns the name to address the owner of this account by: the first word of the full name, else the login
// name, else otherwise.
func Person(otherwise string) string {
	u, err := user.Current()
	if err != nil {
		return otherwise
	}
	return called(u.Name, u.Username, otherwise)
}

// called returns the first printable word with a letter in it from full, else from login.
func called(full, login, otherwise string) string {
	full, _, _ = strings.Cut(full, ",") // the field may contain a room and telephone numbers after the name
	for _, name := range []string{full, login} {
		for word := range strings.FieldsSeq(name) {
			if strings.ContainsFunc(word, unicode.IsLetter) && !strings.ContainsFunc(word, unprintable) {
				return word
			}
		}
	}
	return otherwise
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
