package mailbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

func (r *testProject) boot(agent string) error {
	return r.p.Prepare(r.T.Context(), protocol.Boot{Agent: agent, Now: r.Now})
}

// files returns the text of every file below the protocol's folder.
func (r *testProject) files() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(r.Path(Base), func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, readErr := os.ReadFile(p)
			rel, _ := filepath.Rel(r.Dir, p)
			all[filepath.ToSlash(rel)], err = string(text), readErr
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		r.T.Fatal(err)
	}
	return all
}

// Protocol 003, File Locations: boot creates the program's files, and the next scan finds no defect in them.
func TestBoot(t *testing.T) {
	r := newTestProject(t, "")
	if Detect(r.Dir) {
		t.Fatal("detected before boot")
	}
	if s := r.look(); len(s.Faults)+len(s.Agents)+len(s.Findings) > 0 || !s.Again.IsZero() {
		t.Fatalf("a project without the folder: %+v", s)
	}
	r.Do(r.boot("orchestrator"))
	if !Detect(r.Dir) {
		t.Fatal("not detected")
	}
	got := r.files()
	stamp := r.Now.UTC().Format("2006-01-02T15:04:05Z")
	want := map[string]string{
		queuePath: "{\n  \"version\": \"1.0\",\n  \"tasks\": [],\n  \"completed\": [],\n  \"current\": null,\n  \"lastUpdated\": \"" + stamp + "\"\n}\n",
		devPath:   "{\n  \"messages\": [],\n  \"lastRead\": null\n}\n",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is\n%s\nwant\n%s", name, got[name], text)
		}
	}
	for _, box := range boxNames {
		if got[Base+"/messages/"+box] == "" {
			t.Errorf("no %s", box)
		}
	}
	if st, err := os.Stat(r.Path(Base + "/logs")); err != nil || !st.IsDir() {
		t.Errorf("no logs folder: %v", err)
	}
	s := r.look()
	describes := "agent orchestrator stopped idle\nagent planner idle idle beat -1s limit 5m0s\nagent designer idle idle beat -1s limit 5m0s\n" +
		"agent tech-lead idle idle beat -1s limit 5m0s\nagent developer idle idle beat -1s limit 15m0s\nmeasure rejections 0\nmeasure build_failures 0\n"
	if got := protocoltest.Describe(s); got != describes {
		t.Errorf("seen\n%s\nwant\n%s", got, describes)
	}
	r.Now = r.Now.Add(time.Hour)
	for _, name := range agentNames {
		r.Do(r.boot(name))
	}
	if again := r.files(); len(again) != len(got) || again[queuePath] != got[queuePath] || again[boardPath] != got[boardPath] {
		t.Errorf("booting again changed something: %v", again)
	}
}

// Existing files stay the same byte for byte. In a project with the document's layout, the missing files are created in
// that layout.
func TestBootMerges(t *testing.T) {
	r := newTestProject(t, file(Base+"/tasks/queue.json", queueText)+file(Base+"/tasks/messages/to-developer.json", "half a docu"))
	r.Do(r.boot("developer"))
	got := r.files()
	if got[Base+"/tasks/queue.json"] != queueText || got[Base+"/tasks/messages/to-developer.json"] != "half a docu" {
		t.Error("what was there has changed")
	}
	if got[Base+"/tasks/status.json"] == "" || got[Base+"/tasks/messages/to-team-lead.json"] == "" {
		t.Errorf("not in the layout that is in use: %v", got)
	}
	for name := range got {
		if !strings.HasPrefix(name, Base+"/tasks/") {
			t.Errorf("%s was laid outside the layout in use", name)
		}
	}
}

func TestBootRefusesStrangers(t *testing.T) {
	r := newTestProject(t, "")
	for _, name := range []string{"codex", "", "../x", "Developer\n"} {
		if err := r.boot(name); err == nil || !strings.Contains(err.Error(), "tech-lead") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if Detect(r.Dir) {
		t.Error("something was laid")
	}
}
