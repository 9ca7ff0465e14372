package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of a released binary, set by the linker: -X main.release=1.2.3.
var release string

// version is the release, or else the build information recorded by the Go toolchain.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return "dev" + revision + dirty
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  steward version -o json",
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return a.print(struct {
					Version string `json:"version"`
					Go      string `json:"go"`
					OS      string `json:"os"`
					Arch    string `json:"arch"`
				}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
			}
			return a.write(fmt.Sprintf("steward %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}
