//go:build !linux

package proc

func onMainThread() bool { return true }

func endThread() {}

func playOnLinux(string) {}
