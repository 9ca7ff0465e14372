package folder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// FirstText is the first of the fields that holds a text that is not blank.
func FirstText(o jsonfile.Object, keys ...string) string {
	for _, key := range keys {
		if s, ok := o.String(key); ok.OK() && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// ContentSum is the checksum of a JSON value, independent of white space between its tokens.
func ContentSum(v jsonfile.Value) jsonfile.Sum {
	var b bytes.Buffer
	if err := json.Compact(&b, v.Raw()); err != nil {
		return jsonfile.SumOf(v.Raw())
	}
	return jsonfile.SumOf(b.Bytes())
}

// Minutes formats a time limit for people.
func Minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}

// Pattern compiles a pattern on first use, because a short command of steward needs none.
func Pattern(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// MaxPID is above every pid that a system assigns.
const MaxPID = 1 << 30

// ParsePID reads the text of a pid file. An empty file is still being written.
func ParsePID(text []byte) (int, error) {
	word := string(bytes.TrimSpace(text))
	if word == "" {
		return 0, fmt.Errorf("%w: the pid file is empty", jsonfile.ErrTorn)
	}
	pid, err := strconv.Atoi(word)
	if err != nil || pid <= 0 || pid >= MaxPID {
		return 0, fmt.Errorf("%w: the pid file holds no process number", jsonfile.ErrBad)
	}
	return pid, nil
}
