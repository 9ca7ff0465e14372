package service

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// mark is the first line of every file that steward may replace and remove.
const mark = "# Written by `steward service install`. Changes belong into a drop-in: systemctl edit steward"

// failedName is the unit that systemd starts when it has given up restarting steward.
const failedName = Name + "-failed.service"

const unitName = Name + ".service"

// mayNamespace is the first systemd version that gives a user service its own user namespace when one of the
// namespace directives is set. Inside a user namespace the kernel hides the folders and open files of all other
// processes. See docs/decisions.md, "The user's unit has no namespaces".
const mayNamespace = 254

// units renders the unit and its failure unit. version is systemd's, or 0 if it is not known.
func units(spec Spec, dir string, version int) ([]File, error) {
	command, err := commandLine(append([]string{spec.Binary, "run", "--service"}, spec.Args...))
	if err != nil {
		return nil, err
	}
	after := func(verb string) string {
		line, _ := commandLine(append([]string{spec.Binary, "service", verb}, spec.Args...))
		return line
	}
	common, err := hardening(spec, version)
	if err != nil {
		return nil, err
	}
	if spec.System {
		common = "User=" + spec.User + "\n" + machineFolders(spec) + common
	}
	target := "default.target"
	if spec.System {
		target = "multi-user.target"
	}
	for _, pair := range spec.Env {
		line, err := quoted([]string{pair})
		if err != nil {
			return nil, err
		}
		common += "Environment=" + line + "\n"
	}
	mounts, err := words("RequiresMountsFor", append([]string{spec.Home}, spec.Projects...), spec.System)
	if err != nil {
		return nil, err
	}
	unit := mark + "\n" + fmt.Sprintf(mainUnit, mounts, failedName, command, after("ended"), common, target)
	failed := mark + "\n" + fmt.Sprintf(failedUnit, mounts, after("failed"), common)
	return []File{{filepath.Join(dir, unitName), unit}, {filepath.Join(dir, failedName), failed}}, nil
}

// The start limit stops a crash loop that steward's own start delay cannot stop, because steward dies before it
// counts the start. Agents' processes that still run in the unit must survive a stop (KillMode), and one that
// exhausts the memory must not end steward (OOMPolicy). Exit code 78 means that a restart is useless. See docs/decisions.md, "KillMode=process".
const mainUnit = `[Unit]
Description=steward, the supervisor of AI coding agents
Documentation=https://github.com/livhana/steward
%sStartLimitIntervalSec=60s
StartLimitBurst=10
OnFailure=%s

[Service]
Type=notify
NotifyAccess=main
ExecStart=%s
ExecReload=/bin/kill -HUP $MAINPID
ExecStopPost=-%s
Restart=on-failure
RestartPreventExitStatus=78
RestartSec=500ms
TimeoutStartSec=150s
TimeoutStopSec=15s
WatchdogSec=180s
KillMode=process
OOMPolicy=continue
Environment=STEWARD_SERVICE=systemd
%s
[Install]
WantedBy=%s
`

const failedUnit = `[Unit]
Description=Release what steward held, and say that it has stopped
%s
[Service]
Type=oneshot
ExecStart=%s
TimeoutStartSec=60s
Environment=STEWARD_SERVICE=systemd
%s`

// machineFolders returns the folder settings of a machine-wide unit. TMPDIR is among them because /tmp is read-only
// to the unit. The bus address is set because the user's session bus may appear later than steward.
func machineFolders(spec Spec) string {
	uid := strconv.Itoa(spec.UID)
	return `StateDirectory=steward
StateDirectoryMode=0700
RuntimeDirectory=steward
RuntimeDirectoryMode=0700
WorkingDirectory=~
Environment=TMPDIR=/run/steward
Environment=XDG_RUNTIME_DIR=/run/user/` + uid + `
Environment=DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/` + uid + `/bus
`
}

// hardening removes privileges that steward does not need. steward must see other processes and reach the user's
// session bus and the network (push messages, metrics). Speech and notification programs must run as its children,
// and so must scripts of any language, which need writable executable memory. RemoveIPC is not set, because it would
// remove IPC objects that the user's other programs share. See docs/decisions.md, "No RemoveIPC, no MemoryDenyWriteExecute, no PrivateTmp".
func hardening(spec Spec, version int) (string, error) {
	all := []string{
		"NoNewPrivileges=yes",
		"KeyringMode=private",
		"LockPersonality=yes",
		"DevicePolicy=closed",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
		"RestrictNamespaces=yes",
		"RestrictRealtime=yes",
		"RestrictSUIDSGID=yes",
		"SystemCallArchitectures=native",
		"SystemCallFilter=@system-service",
		"SystemCallFilter=~@privileged @resources",
		"SystemCallErrorNumber=EPERM",
	}
	mounts := []string{"PrivateMounts=yes", "ProtectControlGroups=yes", "ProtectKernelTunables=yes"}
	switch {
	case spec.System:
		all = append(append(all, mounts...),
			"CapabilityBoundingSet=",
			"PrivateDevices=yes",
			"ProtectClock=yes",
			"ProtectHostname=yes",
			"ProtectKernelLogs=yes",
			"ProtectKernelModules=yes",
			"ProtectSystem=strict",
			"ProtectHome=read-only",
		)
	case version > 0 && version < mayNamespace:
		// An older user manager applies what it can of these settings without a namespace, and ignores the rest.
		// Settings that remove a capability would keep the service from starting.
		all = append(all, mounts...)
	}
	// The user's session folder is below /run/user, which ProtectHome covers; it contains the lock of the voice.
	writable, err := words("ReadWritePaths", optional(append([]string{"/run/user/" + strconv.Itoa(spec.UID)}, spec.Projects...)), spec.System)
	return strings.Join(all, "\n") + "\n" + writable, err
}

// optional marks paths that may be missing when the unit starts.
func optional(paths []string) []string {
	var all []string
	for _, p := range paths {
		all = append(all, "-"+p)
	}
	return all
}

// words returns one line with a list of paths, or "".
func words(key string, paths []string, wanted bool) (string, error) {
	if !wanted || len(paths) == 0 {
		return "", nil
	}
	line, err := quoted(paths)
	return key + "=" + line + "\n", err
}

// commandLine formats a command in systemd's syntax. systemd expands variables in the arguments only.
func commandLine(argv []string) (string, error) {
	if strings.Contains(argv[0], "$") {
		return "", fmt.Errorf("systemd cannot start %q; choose a path without $", argv[0])
	}
	line, err := quoted(argv)
	return strings.ReplaceAll(line, "$", "$$"), err
}

// quoted joins words so that systemd splits them again.
func quoted(list []string) (string, error) {
	var all []string
	for _, w := range list {
		if strings.Contains(w, "{{") || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", fmt.Errorf("%q cannot stand in a service definition; choose a path without control characters and {{", w)
		}
		w = strings.ReplaceAll(w, "%", "%%")
		if w == "" || strings.ContainsAny(w, " \"'\\;") {
			w = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`
		}
		all = append(all, w)
	}
	return strings.Join(all, " "), nil
}
