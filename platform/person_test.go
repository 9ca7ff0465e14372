package platform

import "testing"

func TestAPersonIsCalledByTheAccountsName(t *testing.T) {
	for _, c := range []struct{ full, login, want string }{
		{"Ann Smith,Room 4,555-1234,", "ann", "Ann"},
		{"", "asmith", "asmith"},
		{",,,", "asmith", "asmith"},
		{"\x1b[2JAnn", "ann", "ann"},
		{"42 Ann", "ann", "Ann"},
		{"", "", "Jesse"},
		{"", "1000", "Jesse"},
	} {
		if got := called(c.full, c.login, "Jesse"); got != c.want {
			t.Errorf("%q, %q: got %q, want %q", c.full, c.login, got, c.want)
		}
	}
}
