#!/bin/sh
# Installs what the tests use beside Go: a tracer and disks in files for fault injection, linters for scripts and packages, a headless desktop
# (display, bus, notification server, sound server, voice), and a systemd to boot in namespaces. Debian and its family, as root; elsewhere it says in one
# line what the tests will leave out. It never fails: tests that miss a tool skip themselves and say so.
# See docs/decisions.md, "Tests install their own tools".
set -eu

packages="strace shellcheck xvfb xauth dbus dbus-daemon xfce4-notifyd xdotool x11-utils imagemagick espeak-ng pulseaudio
pulseaudio-utils sox fonts-dejavu-core jq curl systemd systemd-sysv dbus-user-session libpam-systemd lintian rpm man-db
groff-base supervisor e2fsprogs mount util-linux"

missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
	echo "skipped: not root on Debian, so tests that need these leave themselves out:$missing"
	exit 0
fi
echo "installing packages that the tests use, by apt-get:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the list is meant to be split
if { apt-get update -q && apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1; then
	echo "installed"
else
	echo "skipped: apt-get: $(grep -m1 '^E:' "$log" || tail -n1 "$log"); tests that need these leave themselves out:$missing"
fi
