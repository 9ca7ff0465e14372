package proc

// play: no role of Windows' own is needed.
func play(string) {}
