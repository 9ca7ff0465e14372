package service

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"
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

// plistDict is a dictionary that keeps its order. Values: string, int, bool, []string, plistDict.
type plistDict []plistEntry

type plistEntry struct {
	key   string
	value any
}

// launchdKeys returns the job definition (launchd.plist(5)). session is "" for a daemon, which has no session.
func launchdKeys(spec Spec, session string) plistDict {
	log := filepath.Join(spec.LogDir, Name+".log") // one file for both streams: launchd appends, so the order is kept
	d := plistDict{
		{"Label", Label},
		{"ProgramArguments", append([]string{spec.Binary, "run", "--service"}, spec.Args...)},
		{"RunAtLoad", true},
		{"KeepAlive", plistDict{{"SuccessfulExit", false}}}, // steward exits with 0 when it must not be restarted
		{"ThrottleInterval", throttleSeconds},
		{"ExitTimeOut", exitSeconds},
		{"AbandonProcessGroup", true}, // agents that steward started must survive its end
		{"ProcessType", "Background"},
		{"SoftResourceLimits", plistDict{{"NumberOfFiles", openFiles}}},
		{"HardResourceLimits", plistDict{{"NumberOfFiles", mostOpenFiles}}},
		{"Umask", privateUmask},
		{"WorkingDirectory", spec.Home},
		{"StandardOutPath", log},
		{"StandardErrorPath", log},
		{"EnvironmentVariables", launchdEnvironment(spec, session)},
	}
	if session == "" {
		return append(d, plistEntry{"UserName", spec.User})
	}
	return append(d, plistEntry{"LimitLoadToSessionType", session})
}

// launchdEnvironment returns the environment variables. launchd's PATH lacks the folders of user-installed programs,
// and a daemon gets neither HOME nor USER.
func launchdEnvironment(spec Spec, session string) plistDict {
	search := "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	if !strings.Contains(spec.Home, ":") {
		search = filepath.Join(spec.Home, ".local/bin") + ":" + search // the usual install location of agents
	}
	env := plistDict{{"PATH", search}}
	if session == "" {
		env = append(env, plistEntry{"HOME", spec.Home}, plistEntry{"USER", spec.User}, plistEntry{"LOGNAME", spec.User})
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
	w := &plistText{}
	w.b.WriteString(xml.Header)
	w.b.WriteString(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	w.b.WriteString("<!-- " + plistMark + "; program " + cmp.Or(sum, "not there yet") + " -->\n")
	w.b.WriteString("<plist version=\"1.0\">\n")
	w.dict("", launchdKeys(spec, session))
	w.b.WriteString("</plist>\n")
	if w.bad != "" {
		return "", fmt.Errorf("render the plist: %q cannot be written in XML; use a name without control characters", w.bad)
	}
	return w.b.String(), nil
}

// plistText is a property list being written.
type plistText struct {
	b   strings.Builder
	bad string // a text that XML cannot represent
}

func (w *plistText) dict(indent string, d plistDict) {
	w.b.WriteString(indent + "<dict>\n")
	for _, e := range d {
		w.leaf(indent+"\t", "key", e.key)
		w.value(indent+"\t", e.value)
	}
	w.b.WriteString(indent + "</dict>\n")
}

func (w *plistText) value(indent string, value any) {
	switch v := value.(type) {
	case string:
		w.leaf(indent, "string", v)
	case int:
		w.leaf(indent, "integer", fmt.Sprint(v))
	case bool:
		fmt.Fprintf(&w.b, "%s<%t/>\n", indent, v)
	case []string:
		w.b.WriteString(indent + "<array>\n")
		for _, s := range v {
			w.leaf(indent+"\t", "string", s)
		}
		w.b.WriteString(indent + "</array>\n")
	case plistDict:
		w.dict(indent, v)
	}
}

func (w *plistText) leaf(indent, tag, text string) {
	// EscapeText replaces a character that XML cannot represent with U+FFFD, which would yield a different path.
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unspeakable) {
		w.bad = text
	}
	w.b.WriteString(indent + "<" + tag + ">")
	_ = xml.EscapeText(&w.b, []byte(text)) // a strings.Builder never fails
	w.b.WriteString("</" + tag + ">\n")
}

func unspeakable(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// plistProgram returns the program that a property list starts; "" if the text does not name one or is not XML.
func plistProgram(text string) string {
	d := xml.NewDecoder(strings.NewReader(text))
	key, element := "", ""
	for {
		token, err := d.Token()
		if err != nil {
			return "" // io.EOF or not XML
		}
		switch t := token.(type) {
		case xml.StartElement:
			if element = t.Name.Local; element == "string" && key == "ProgramArguments" {
				return innerText(d)
			}
			if element == "key" {
				key = innerText(d)
			}
		}
	}
}

// innerText returns the text up to the end of the current element.
func innerText(d *xml.Decoder) string {
	var b strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) || err != nil {
			return ""
		}
		switch t := token.(type) {
		case xml.CharData:
			b.Write(t)
		case xml.EndElement:
			return b.String()
		}
	}
}
