package jsonfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

func TestParseTime(t *testing.T) {
	base := time.Date(2025, 11, 8, 10, 20, 30, 0, time.UTC)
	for _, c := range []struct {
		in   string
		want time.Time
	}{
		{"2025-11-08T10:20:30Z", base},
		{"2025-11-08t10:20:30z", base},
		{"2025-11-08T10:20:30.123Z", base.Add(123 * time.Millisecond)},
		{"2025-11-08T10:20:30.123456Z", base.Add(123456 * time.Microsecond)},
		{"2025-11-08T10:20:30+0000", base},
		{"2025-11-08T12:20:30+0200", base},
		{"2025-11-08T10:20:30+00:00", base},
		{"2025-11-08T05:20:30.5-05:00", base.Add(time.Second / 2)},
		{"2025-11-08T12:20:30+02", base},
		{"2025-11-08T10:20:30", base},
		{"2025-11-08T10:20:30.123456", base.Add(123456 * time.Microsecond)},
		{"2025-11-08 10:20:30", base},
		{"2025-11-08 10:20:30 +0000", base},
		{"2025-11-08 10:20:30 UTC", base},
		{"2025-11-08T10:20:30+00:00Z", base},
		{" 2025-11-08T10:20:30Z\n", base},
		{"1762597230", base},
		{"1762597230000", base},
		{"1762597230.5", base.Add(time.Second / 2)},
		{"1762597230000000", base},
		{"1762597230000000000", base},
		{"1762597230.123456", base.Add(123456 * time.Microsecond)},
		{"1762597230123.0", base.Add(123 * time.Millisecond)},
	} {
		got := jsonfile.ParseStated(c.in)
		if !got.At.Equal(c.want) || got.At.Location() != time.UTC {
			t.Errorf("%v: %v", c.in, got)
		}
		if zoneless := !strings.ContainsAny(c.in[10:], "Zz+-U") && c.in[4] == '-'; got.Zoneless != zoneless {
			t.Errorf("%v: zoneless %v", c.in, got.Zoneless)
		}
	}
	for _, bad := range []string{"", "now", "2025-11-08", "2025-13-08T10:20:30Z", "2025-11-08T10:20:30Zx", "-5", "0", "42", "-1", "NaN", "Inf", "1e300"} {
		if got := jsonfile.ParseStated(bad); !got.At.IsZero() {
			t.Errorf("%v is %v", bad, got)
		}
	}
	same(t, jsonfile.FormatTime(base.In(time.FixedZone("", 7200)).Add(999)), "2025-11-08T10:20:30Z")
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2025-11-08T10:20:30Z", "2025-11-08 10:20:30 UTC", "2025-11-08T10:20:30+00:00Z", "1762597230.5", "    -              ", "2025-11-08T          Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := jsonfile.ParseStated(s).At
		if got.IsZero() || got.Year() > 9999 {
			return
		}
		again := jsonfile.ParseStated(jsonfile.FormatTime(got)).At
		if !again.Equal(got.Truncate(time.Second)) {
			t.Fatalf("%q: %v, then %v", s, got, again)
		}
	})
}
