package platform

import (
	"os/user"
	"strings"
	"unicode"
)

// Person is what to call the owner of this account: the first word of the full name, else the login name, else
// otherwise.
func Person(otherwise string) string {
	u, err := user.Current()
	if err != nil {
		return otherwise
	}
	return called(u.Name, u.Username, otherwise)
}

// called takes the first of the names that has a word fit to be spoken.
func called(full, login, otherwise string) string {
	full, _, _ = strings.Cut(full, ",") // the field may have a room and telephone numbers behind the name
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
