package desktop

import (
	"os"
	"path/filepath"
	"strconv"
)

// seenVoice returns what speak tries first, preferring a player with an output.
func seenVoice() Voice {
	synth := filepath.Base(first(synthesizers[:]))
	spare := Voice{}
	for _, player := range players {
		if _, ok := find(player); !ok || synth == "." {
			continue
		}
		v := Voice{Tool: synth + ", played by " + player, Sink: sinkOf(player)}
		if v.Sink != "" {
			return v
		}
		if spare.Tool == "" {
			spare = v
		}
	}
	if _, ok := find(dispatcher); ok && spare.Tool == "" {
		return Voice{Tool: dispatcher, Sink: sinkOf(dispatcher)}
	}
	return spare
}

// sinkOf searches for the sockets of sound servers and for sound cards. A query could start a sound server.
func sinkOf(player string) string {
	pipewire, pulse := runtimeFile("pipewire-0"), runtimeFile("pulse/native")
	if server := os.Getenv("PULSE_SERVER"); server != "" {
		pulse = server
	}
	cards, _ := filepath.Glob("/dev/snd/pcm*p")
	card := ""
	if len(cards) > 0 {
		card = cards[0]
	}
	switch player {
	case "pw-play":
		return pipewire
	case "paplay":
		return pulse
	}
	for _, sink := range []string{pulse, pipewire, card} {
		if sink != "" {
			return sink
		}
	}
	return ""
}

// runtimeFile returns the path of a file in this user's session folder, or "" if it does not exist.
func runtimeFile(name string) string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join("/run/user", strconv.Itoa(os.Geteuid()))
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
