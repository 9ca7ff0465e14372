package desktop

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// shell runs a fixed script. What comes from outside reaches it through the environment only, never in its text.
func shell(ctx context.Context, script string, limit time.Duration, env ...string) error {
	path, ok := find("powershell")
	if !ok {
		return noShell()
	}
	c := child{path: path, args: []string{"-NoProfile", "-NonInteractive", "-Command", "$ErrorActionPreference='Stop';" + script}, env: environment(env...), limit: limit}
	_, err := c.run(ctx)
	return err
}

func noShell() error {
	return hinted(unavailable("no powershell in PATH"), "put Windows PowerShell 5.1 into PATH")
}

const (
	toastHead = `$m=[Windows.UI.Notifications.ToastNotificationManager,Windows.UI.Notifications,ContentType=WindowsRuntime];` +
		`$app='{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\WindowsPowerShell\v1.0\powershell.exe';`
	toastShow = toastHead + `$x=$m::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02);` +
		`$t=$x.GetElementsByTagName('text');` +
		`[void]$t.Item(0).AppendChild($x.CreateTextNode($env:STEWARD_TITLE));` +
		`[void]$t.Item(1).AppendChild($x.CreateTextNode([string]$env:STEWARD_TEXT));` +
		`if($env:STEWARD_QUIET){try{$a=$x.CreateElement('audio');$a.SetAttribute('silent','true');[void]$x.GetElementsByTagName('toast').Item(0).AppendChild($a)}catch{}};` +
		`$n=[Windows.UI.Notifications.ToastNotification]::new($x);$n.Tag=$env:STEWARD_TAG;$n.Group='steward';` +
		`$s=$m::CreateToastNotifier($app);if($s.Setting -ne 'Enabled'){[Console]::Error.WriteLine('toasts are switched off');exit 3};` +
		`$s.Show($n)`
	toastHide = toastHead + `$m::History.Remove($env:STEWARD_TAG,'steward',$app)`
	sayText   = `Add-Type -AssemblyName System.Speech;` +
		`(New-Object System.Speech.Synthesis.SpeechSynthesizer).Speak($env:STEWARD_TEXT)`
)

// screen shows toasts through PowerShell.
type screen struct {
	book *book // a run that knows a key replaces and removes its toast, whoever showed it
}

func newScreen(*outbox) *screen { return &screen{} }

// tag is the key as a toast takes it: 64 characters at most.
func tag(key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return "STEWARD_TAG=" + strconv.FormatUint(h.Sum64(), 16)
}

func (s *screen) show(ctx context.Context, m Message) (Proof, error) {
	env := []string{"STEWARD_TITLE=" + m.Title, "STEWARD_TEXT=" + m.Text, tag(m.Key)}
	if m.Quiet {
		env = append(env, "STEWARD_QUIET=1")
	}
	if err := shell(ctx, toastShow, answerTime, env...); err != nil {
		return Proof{}, err
	}
	s.book.put(m.Key, mark{})
	s.book.flush(ctx)
	return Proof{Result: Sent, Detail: "Windows took the toast and does not say whether it is seen"}, nil
}

func (s *screen) withdraw(ctx context.Context, key string) error {
	err := shell(ctx, toastHide, answerTime, tag(key))
	if err == nil {
		s.book.drop(key)
		s.book.flush(ctx)
	}
	return err
}

func (*screen) probe(context.Context) error { return probeVoice() }

func (*screen) close() error { return nil }

func probeVoice() error {
	if _, ok := find("powershell"); !ok {
		return noShell()
	}
	return nil
}

// checkSpeaker has nothing to ask: the time that the voice takes is the check.
func checkSpeaker(context.Context, bool) error { return nil }

func (s *Speech) speak(ctx context.Context, _, text string, _ bool) (Proof, error) {
	length := estimate(text)
	begin := time.Now()
	if err := shell(ctx, sayText, s.limit(length), "STEWARD_TEXT="+text); err != nil {
		return Proof{}, err
	}
	took := time.Since(begin)
	proof := Proof{Result: Spoken, Detail: fmt.Sprintf("System.Speech took %.1f s of about %.1f s", took.Seconds(), length.Seconds())}
	if took < length/4 {
		proof.Result = Sent
	}
	return proof, nil
}
