package agentstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// The health fields of a heartbeat that steward writes repeat the daemon's measurement; a stale or unknown
// measurement changes no field.
func TestHealthIsMeasured(t *testing.T) {
	s := newSite(t, around)
	s.look()
	measure := func(at time.Time, cpu, memory, disk string) {
		s.Do(s.p.Publish([]byte(fmt.Sprintf(`{"updated_at":%q,"health":{"cpu_ok":%s,"memory_ok":%s,"disk_ok":%s}}`, jsonfile.FormatTime(at), cpu, memory, disk))))
	}
	free := 1.0
	shows := func(b Beat, want string) {
		t.Helper()
		s.Do(s.p.agents.beat(codex, b, nil))
		o, err := jsonfile.Parse([]byte(s.Read(Base + "/" + beatFile(s.p.agents.dirOf(codex)))))
		s.Do(err)
		health, _ := o.Object("health")
		var got []string
		for _, word := range []string{"cpu_ok", "memory_ok", "disk_ok"} {
			ok, _ := health.Bool(word)
			got = append(got, fmt.Sprint(ok))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("health %v, want %s", got, want)
		}
	}
	measure(s.Now, "false", "true", "false")
	shows(Beat{Status: "idle"}, "false true false")
	for _, f := range s.look().Findings { // the machine is overloaded, which is not the agent's complaint
		if f.Code == "health" {
			t.Errorf("finding: %+v", f)
		}
	}
	measure(s.Now, "null", "false", "null")
	shows(Beat{Status: "idle"}, "false false false")
	measure(s.Now.Add(-time.Hour), "true", "true", "true")
	shows(Beat{Status: "idle"}, "false false false")
	shows(Beat{Status: "idle", Free: &free}, "false false true")
	measure(s.Now, "true", "true", "true")
	shows(Beat{Status: "idle", Free: &free, DiskFull: true}, "true true false")
}
