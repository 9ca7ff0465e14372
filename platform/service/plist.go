package service

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// The kinds of session that an agent can be limited to: exactly one, because with both launchd would run a copy in
// the background from the first ssh login on, and a second one on the desktop; and user/UID refuses the pair.
const (
	onDesktop    = "Aqua"       // gui/UID: popups and voice reach the human
	inBackground = "Background" // user/UID: a Mac that nobody sits at
)

const (
	// Above what a graceful end takes (5 s), and set because the default differs between versions (5 s or 20 s).
	exitSeconds = 20
	// launchd's own least: a service that ends sooner than this after its start waits for the rest of it.
	throttleSeconds = 10
	openFiles       = 10240 // what every macOS grants; launchd's default of 256 is too few for watched folders
	mostOpenFiles   = 65536 // for the agents that steward starts
	privateUmask    = 0o077
)

// plistMark tells our plists from others'.
const plistMark = "Written by `steward service install`"

// plistDict is a dictionary in the order in which it is written. Values: string, int, bool, []string, plistDict.
type plistDict []plistEntry

type plistEntry struct {
	key   string
	value any
}

// launchdKeys says what launchd is to do (launchd.plist(5)). session is "" for a daemon, which belongs to none.
func launchdKeys(spec Spec, session string) plistDict {
	log := path.Join(filepath.ToSlash(spec.LogDir), Name+".log") // one file: launchd appends, so the order is kept
	d := plistDict{
		{"Label", Label},
		{"ProgramArguments", append([]string{spec.Binary, "run", "--service"}, spec.Args...)},
		{"RunAtLoad", true},
		{"KeepAlive", plistDict{{"SuccessfulExit", false}}}, // steward ends with 0 when it must not come back
		{"ThrottleInterval", throttleSeconds},
		{"ExitTimeOut", exitSeconds},
		{"AbandonProcessGroup", true}, // the end of steward must not be the end of the agents that it started
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

// launchdEnvironment: launchd's own PATH lacks what people install; and a daemon gets neither HOME nor USER.
func launchdEnvironment(spec Spec, session string) plistDict {
	search := "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	if !strings.Contains(spec.Home, ":") {
		search = path.Join(filepath.ToSlash(spec.Home), ".local/bin") + ":" + search // where agents install themselves
	}
	env := plistDict{{"PATH", search}}
	if session == "" {
		env = append(env, plistEntry{"HOME", spec.Home}, plistEntry{"USER", spec.User}, plistEntry{"LOGNAME", spec.User})
	}
	return env
}

// renderPlist writes the property list. sum stands in a comment: with it, an upgrade of the program under the same
// path is a change of the file, which is how Install sees that an older program runs.
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
	bad string // a text that XML cannot hold
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
	// The escaper puts U+FFFD where XML has no way to say a character: that would be another path.
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unspeakable) {
		w.bad = text
	}
	w.b.WriteString(indent + "<" + tag + ">")
	_ = xml.EscapeText(&w.b, []byte(text)) // a strings.Builder takes everything
	w.b.WriteString("</" + tag + ">\n")
}

func unspeakable(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// plistProgram reads which program a property list starts; "" if it does not say, or is none of ours.
func plistProgram(text string) string {
	d := xml.NewDecoder(strings.NewReader(text))
	key, element := "", ""
	for {
		token, err := d.Token()
		if err != nil {
			return "" // io.EOF, or no XML
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

// innerText reads up to the end of the element that has just begun.
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
