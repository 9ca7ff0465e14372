package jsonfile_test

import (
	"math"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

func TestParseTime(t *testing.T) {
	base := time.Date(2025, 11, 8, 10, 20, 30, 0, time.UTC)
	for _, c := range []struct {
		in   any
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
		{1762597230, base},
		{int64(1762597230000), base},
		{int64(1762597230000000), base},
		{int64(1762597230000000000), base},
		{1762597230.123456, base.Add(123456 * time.Microsecond)},
		{1762597230123.0, base.Add(123 * time.Millisecond)},
	} {
		got, ok := jsonfile.ParseTime(c.in)
		if !ok || !got.Equal(c.want) || got.Location() != time.UTC {
			t.Errorf("%v: %v, %v", c.in, got, ok)
		}
	}
	for _, bad := range []any{"", "now", "2025-11-08", "2025-13-08T10:20:30Z", "2025-11-08T10:20:30Zx", "-5", "0", 0, 42, int64(-1), math.NaN(), math.Inf(1), 1e300, true, nil, []byte("x"), jsonfile.Value{}} {
		if got, ok := jsonfile.ParseTime(bad); ok {
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
		got, ok := jsonfile.ParseTime(s)
		if !ok || got.Year() > 9999 || got.Year() < 1 {
			return
		}
		again, ok := jsonfile.ParseTime(jsonfile.FormatTime(got))
		if !ok || !again.Equal(got.Truncate(time.Second)) {
			t.Fatalf("%q: %v, then %v", s, got, again)
		}
	})
}
