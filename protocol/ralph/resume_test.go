package ralph

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckResume(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    string
	}{
		{nil, ""},
		{[]string{"wiggum", "resume", "{task}"}, ""},
		{[]string{"/opt/wiggum/bin/wiggum", "worker", "--id={worker}", "resume", "-f"}, ""},
		{[]string{"env", "WIGGUM_HOME=/opt/wiggum", "wiggum", "worker", "resume", "{task}", "-f"}, ""},
		{[]string{"sh", "-c", `x() { echo "${1}"; }; x {task}`}, ""},
		{[]string{""}, "is not a program"},
		{[]string{" ", "{task}"}, "is not a program"},
		{[]string{"{task}"}, "is not a program"},
		{[]string{"wiggum-{worker}", "{task}"}, "is not a program"},
		{[]string{"wiggum"}, "neither {task} nor {worker}"},
		{[]string{"wiggum", "resume", "{id}", "{task}"}, "{id} means nothing"},
		{[]string{"wiggum", "{task}\x00"}, "zero byte"},
		{append(slices.Repeat([]string{"x"}, maxArgs), "{task}"), "64 at most"},
	} {
		err := CheckResume(c.command)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.command, err, c.want)
		}
	}
}

// Only the listed environment variables are passed on, whatever the others look like.
func TestInheritedEnvironment(t *testing.T) {
	got := inherited([]string{"PATH=/bin", "HOME=/", "PATHS=x", "LC_ALL=C", "LC_=x", "XLC_ALL=x", "NOTIFY_SOCKET=x", "WATCHDOG_USEC=1", "path=x", "TMPDIR=", "=x", "", "SSH_AUTH_SOCK=x"})
	if want := []string{"PATH=/bin", "HOME=/", "LC_ALL=C", "LC_=x", "TMPDIR="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
