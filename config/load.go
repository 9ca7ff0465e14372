package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/livhana/steward"
	"github.com/livhana/steward/escalate/rules"
)

// maxFile is the maximum size of a configuration file in bytes; the defaults with all their comments are a fraction of
// it.
const maxFile = 256 << 10

// Check validates what this package cannot know, such as the servers and programs that a configuration names. Each line
// of its error begins with the complete key concerned.
type Check func(Config) error

// Load reads the file and merges it over the defaults. It reports all errors at once: the error joins one Problem per
// line of text, sorted by line. A missing file is an error.
func Load(path string, checks ...Check) (Config, error) {
	data, err := readFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, checks...)
}

// LoadOptional is Load for the default path: if the file is missing, the defaults apply. A dangling symlink is still an
// error, because the user meant to have a file there.
func LoadOptional(path string, checks ...Check) (Config, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return Defaults(), nil
	}
	return Load(path, checks...)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: larger than %d KiB", path, maxFile>>10)
	}
	return data, err
}

// Parse merges a user's file over the defaults. name is used in the errors, which are like Load's. Scalars override,
// lists replace, tables keyed by name ([heartbeat.agents]) are merged by name. [[retry]] rows inherit nothing: they
// come before the built-in ones (see rules.Merge).
func Parse(name string, data []byte, checks ...Check) (Config, error) {
	s, err := read(name, data)
	if err != nil {
		return Config{}, err
	}
	c := s.merged(checks)
	builtin, own := Defaults().Retry, []rules.Rule(nil)
	if _, ok := s.tree["retry"]; ok {
		own = c.Retry
	}
	for _, f := range rowFlaws(own) {
		if !s.blamed(f.at[len(f.at)-1]) {
			s.blame(f)
		}
	}
	if len(s.found) > 0 {
		return Config{}, s.err()
	}
	c.Retry, c.Gone = rules.Merge(own, builtin), sorted(s.gone)
	return c, nil
}

// merged merges the file over the defaults and collects the flaws.
func (s *decoder) merged(checks []Check) Config {
	c := Defaults()
	s.decode(&c)
	flaws := flawList(c.flaws())
	for _, check := range checks {
		flaws.policy("", "", check(c))
	}
	for _, f := range flaws {
		s.blame(f)
	}
	return c
}

// DefaultsText is config.toml as it is shipped, with its comments.
func DefaultsText() string { return steward.Defaults }

// Defaults returns the settings in config.toml. The file is embedded in the program and covered by tests, so a parse
// failure is a build defect: Defaults panics.
func Defaults() Config {
	s, err := read("config.toml", []byte(steward.Defaults))
	if err != nil {
		panic(fmt.Sprintf("read the embedded configuration: %v", err))
	}
	var c Config
	c.tune()
	s.decode(&c)
	if len(s.found) > 0 {
		panic(fmt.Sprintf("read the embedded configuration: %v", s.err()))
	}
	return c
}

// Validate reports every invalid value, one per line. It does not know the lines of a file; Parse does.
func (c Config) Validate() error {
	var errs []error
	for _, f := range append(c.flaws(), rowFlaws(c.Retry)...) {
		errs = append(errs, errors.New(f.text))
	}
	return errors.Join(errs...)
}
