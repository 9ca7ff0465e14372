package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// describeMachine says on what, and of what, the figures are.
func describeMachine(program string) string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%-9s %s\n", key, value) }
	line("cpu", orUnknown(field("/proc/cpuinfo", "model name")))
	line("cores", fmt.Sprint(runtime.NumCPU()))
	line("memory", orUnknown(field("/proc/meminfo", "MemTotal")))
	line("kernel", firstLine("uname", "-srm"))
	line("scratch", os.TempDir()+" on "+firstLine("stat", "-f", "-c", "%T", os.TempDir()))
	line("go", firstLine("go", "version"))
	line("steward", firstLine(program, "version")+", sha256 "+shortSum(program))
	return b.String()
}

// describeLoad tells how quiet the machine was: others at work make every latency worse.
func describeLoad(started time.Time) string {
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%-9s %s, took %.0f s; load average at the end: %s\n", "date", started.UTC().Format(time.RFC3339),
		time.Since(started).Seconds(), orUnknown(strings.TrimSpace(string(load))))
}

// field reads "key : value" from a file of lines.
func field(file, key string) string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return orUnknown(strings.TrimSpace(line))
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// shortSum names a program by its content.
func shortSum(program string) string {
	data, err := os.ReadFile(program)
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}
