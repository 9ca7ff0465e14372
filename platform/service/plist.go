package service

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"howett.net/plist"
)

// Session types that an agent can be limited to. The plist names exactly one: with both, launchd would run a
// background copy from the first ssh login on and a second copy on the desktop, and user/UID rejects the pair.
const (
	onDesktop    = "Aqua"       // gui/UID: popups and voice reach the user
	inBackground = "Background" // user/UID: a Mac without a graphical login
)

const (
	// Longer than a graceful stop takes (5 s). It is set because the default differs between versions (5 s or 20 s).
	exitSeconds = 20
	// launchd's minimum: a service that ends earlier than this after its start is restarted only when the interval is
	// over.
	throttleSeconds = 10
	openFiles       = 10240 // every macOS grants this; launchd's default of 256 is too low for watched folders
	mostOpenFiles   = 65536 // for agents that steward starts
	privateUmask    = 0o077
)

// plistMark distinguishes steward's plists from others.
const plistMark = "Written by `steward service install`"

// launchdJob is the job definition (launchd.plist(5)).
type launchdJob struct {
	Label                  string
	ProgramArguments       []string
	RunAtLoad              bool
	KeepAlive              map[string]bool
	ThrottleInterval       int
	ExitTimeOut            int
	AbandonProcessGroup    bool // agents that steward started must survive its end
	ProcessType            string
	SoftResourceLimits     map[string]int
	HardResourceLimits     map[string]int
	Umask                  int
	WorkingDirectory       string
	StandardOutPath        string
	StandardErrorPath      string
	EnvironmentVariables   map[string]string
	UserName               string `plist:",omitempty"` // daemons only
	LimitLoadToSessionType string `plist:",omitempty"` // agents only
}

// newLaunchdJob returns the job definition. session is "" for a daemon, which has no session.
func newLaunchdJob(spec Spec, session string) launchdJob {
	log := filepath.Join(spec.LogDir, Name+".log") // one file for both streams: launchd appends, so the order is kept
	job := launchdJob{
		Label:                  Label,
		ProgramArguments:       append([]string{spec.Binary, "run", "--service"}, spec.Args...),
		RunAtLoad:              true,
		KeepAlive:              map[string]bool{"SuccessfulExit": false}, // steward exits with 0 when it must not be restarted
		ThrottleInterval:       throttleSeconds,
		ExitTimeOut:            exitSeconds,
		AbandonProcessGroup:    true,
		ProcessType:            "Background",
		SoftResourceLimits:     map[string]int{"NumberOfFiles": openFiles},
		HardResourceLimits:     map[string]int{"NumberOfFiles": mostOpenFiles},
		Umask:                  privateUmask,
		WorkingDirectory:       spec.Home,
		StandardOutPath:        log,
		StandardErrorPath:      log,
		EnvironmentVariables:   launchdEnvironment(spec, session),
		LimitLoadToSessionType: session,
	}
	if session == "" {
		job.UserName = spec.User
	}
	return job
}

// launchdEnvironment returns the environment variables. launchd's PATH lacks the folders of user-installed programs,
// and a daemon gets neither HOME nor USER.
func launchdEnvironment(spec Spec, session string) map[string]string {
	env := map[string]string{"PATH": "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	if !strings.Contains(spec.Home, ":") {
		env["PATH"] = filepath.Join(spec.Home, ".local/bin") + ":" + env["PATH"] // the usual install location of agents
	}
	if session == "" {
		env["HOME"], env["USER"], env["LOGNAME"] = spec.Home, spec.User, spec.User
	}
	return env
}

// renderPlist renders the property list. It writes sum into a comment: an upgrade of the program under the same path
// then changes the file, and Install detects that an older program is running.
func renderPlist(spec Spec, session, sum string) (string, error) {
	for what, p := range map[string]string{"program": spec.Binary, "home": spec.Home, "log folder": spec.LogDir} {
		if !filepath.IsAbs(p) {
			return "", fmt.Errorf("render the plist: the %s %q is not an absolute path", what, p)
		}
	}
	if session == "" && spec.User == "" {
		return "", errors.New("render the plist: the account is missing; name it with --user")
	}
	for _, s := range append([]string{spec.Binary, spec.Home, spec.LogDir, spec.User}, spec.Args...) {
		// XML would carry U+FFFD in place of what it cannot represent, which would be a different path.
		if !utf8.ValidString(s) || strings.ContainsFunc(s, notInXML) {
			return "", fmt.Errorf("render the plist: %q cannot be written in XML; use a name without control characters", s)
		}
	}
	text, err := plist.MarshalIndent(newLaunchdJob(spec, session), plist.XMLFormat, "\t")
	if err != nil {
		return "", fmt.Errorf("render the plist: %w", err)
	}
	return strings.Replace(string(text), "<plist", "<!-- "+plistMark+"; program "+cmp.Or(sum, "not there yet")+" -->\n<plist", 1) + "\n", nil
}

func notInXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// plistProgram returns the program that a property list starts; "" if the text does not name one or is not XML.
func plistProgram(text string) string {
	var job struct{ ProgramArguments []string }
	if format, err := plist.Unmarshal([]byte(text), &job); err != nil || format != plist.XMLFormat || len(job.ProgramArguments) == 0 {
		return ""
	}
	return job.ProgramArguments[0]
}
