package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const voiceHint = "install espeak-ng and a player (pw-play, paplay or aplay)"

// The order of the candidates. A WAV file of our own and a player come first, although speech-dispatcher has better
// voices, because this way yields evidence: the WAV can be checked before it is played, a player fails without a
// sound server, and a player without a real output ends too early. spd-say comes last: without audio it exits with 0,
// it was seen to hang for 635 s, and it starts a daemon. espeak-ng is never used with the sound card directly:
// without one it is silent and exits with 0.
var (
	synthesizers = [...]string{"espeak-ng", "espeak"}
	players      = [...]string{"pw-play", "paplay", "aplay"}
)

const dispatcher = "spd-say"

func probeVoice() error {
	_, dispatched := find(dispatcher)
	synth, player := first(synthesizers[:]), first(players[:])
	switch {
	case dispatched, synth != "" && player != "":
		return nil
	case synth == "":
		return hinted(unavailable("no voice (espeak-ng, espeak, spd-say) in PATH"), voiceHint)
	}
	return hinted(unavailable("no player (pw-play, paplay, aplay) in PATH"), voiceHint)
}

// first returns the path of the first installed tool, or "".
func first(tools []string) string {
	for _, tool := range tools {
		if path, ok := find(tool); ok {
			return path
		}
	}
	return ""
}

// speak tries the candidates in order until one is heard. A Sent result is returned if no later candidate is better.
func (s *Speech) speak(ctx context.Context, dir, text string, urgent bool) (Proof, error) {
	if err := checkSpeaker(ctx, true); err != nil {
		return Proof{}, err
	}
	sound := filepath.Join(dir, "speech.wav") // a fixed name, under the lock: nothing accumulates after crashes
	defer os.Remove(sound)
	length, err := s.synthesize(ctx, sound, text)
	var proof Proof
	if err == nil {
		proof, err = s.play(ctx, sound, length)
	}
	if proof.Result == Spoken || ctx.Err() != nil {
		return proof, orNil(proof, err)
	}
	if later, dispatchErr := s.dispatch(ctx, text, urgent); later.Result != "" && proof.Result == "" {
		proof = later
	} else {
		err = errors.Join(err, dispatchErr)
	}
	return proof, orNil(proof, err)
}

// orNil drops the errors of earlier candidates if there is a proof; otherwise it adds a hint.
func orNil(p Proof, err error) error {
	if p.Result != "" || err == nil {
		return nil
	}
	return hinted(err, "check that the sound server of this user runs (pactl info)")
}

// synthesize writes a WAV file and measures it. The text is passed on stdin: no length limit, not parsed as options,
// not visible in ps.
func (s *Speech) synthesize(ctx context.Context, sound, text string) (time.Duration, error) {
	var errs []error
	for _, tool := range synthesizers {
		path, ok := find(tool)
		if !ok {
			continue
		}
		_ = os.Remove(sound)
		c := toolRun{path: path, args: []string{"--stdin", "-b", "1", "-w", sound}, stdin: text + "\n", limit: s.limit(estimate(text))}
		_, err := c.run(ctx)
		if err == nil {
			var length time.Duration
			if length, err = measure(sound); err == nil {
				return length, nil
			}
			err = fmt.Errorf("%s: %w", tool, err)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(errs...)
}

// play tries the players in order. It checks a player's exit status and its run time.
func (s *Speech) play(ctx context.Context, sound string, length time.Duration) (Proof, error) {
	var weak Proof
	var errs []error
	for _, tool := range players {
		path, ok := find(tool)
		if !ok {
			continue
		}
		c := toolRun{path: path, args: []string{sound}, limit: s.limit(length)}
		took, err := c.run(ctx)
		seen := fmt.Sprintf("%s took %.1f s for %.1f s of sound", tool, took.Seconds(), length.Seconds())
		switch {
		case err != nil:
			errs = append(errs, err)
		case took >= length/2:
			return Proof{Result: Spoken, Detail: seen}, nil
		case weak.Result == "":
			weak = Proof{Result: Sent, Detail: seen}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return weak, errors.Join(errs...)
}

// dispatch passes the text to speech-dispatcher. Exit status 0 means accepted, not heard.
func (s *Speech) dispatch(ctx context.Context, text string, urgent bool) (Proof, error) {
	path, ok := find(dispatcher)
	if !ok {
		return Proof{}, nil
	}
	priority := "message"
	if urgent {
		priority = "important" // not interrupted by other messages
	}
	c := toolRun{path: path, args: []string{"-w", "-P", priority, "--", text}, limit: s.limit(estimate(text))}
	took, err := c.run(ctx)
	if err != nil {
		return Proof{}, err
	}
	return Proof{Result: Sent, Detail: fmt.Sprintf("speech-dispatcher took the text (%.1f s)", took.Seconds())}, nil
}
