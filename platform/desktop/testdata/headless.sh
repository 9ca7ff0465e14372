#!/bin/sh
# Runs a command on a desktop of its own: display, session bus, notification server, sound server.
# Then takes a screenshot, measures what was heard, and prints "popups N", "shot FILE" and "rms X".
# usage: headless.sh ARTIFACTS COMMAND [ARG]... (the command must leave a popup on the screen)
# Ends with 3, naming it in one line, if a tool is missing. Installs nothing (packaging/ci/test-deps.sh does).
set -eu

if [ "${1-}" != --inside ]; then
	for tool in xvfb-run xauth dbus-run-session dbus-send pulseaudio pactl parec espeak-ng paplay sox import xdotool; do
		command -v "$tool" >/dev/null || { echo "headless: skipped, no $tool here" && exit 3; }
	done
	ls /usr/lib/*/xfce4/notifyd/xfce4-notifyd >/dev/null 2>&1 || { echo "headless: skipped, no xfce4-notifyd here" && exit 3; }
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	mkdir -m 700 "$scratch/run" "$scratch/home"
	unset PULSE_SERVER PULSE_COOKIE DBUS_SESSION_BUS_ADDRESS WAYLAND_DISPLAY
	export HOME="$scratch/home" XDG_RUNTIME_DIR="$scratch/run" TMPDIR="$scratch" NO_AT_BRIDGE=1 GSETTINGS_BACKEND=memory
	xvfb-run -a -s "-screen 0 1024x640x24 -nolisten tcp" dbus-run-session -- "$0" --inside "$@"
	exit
fi
shift
artifacts=$1
shift

pids=
stop() {
	# each by its number, the last one first
	for pid in $pids; do kill "$pid" 2>/dev/null || true; done
	wait
}
trap stop EXIT

# until COMMAND...: polls for ten seconds
until_ok() {
	tries=100
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || { echo "headless: gave up waiting for: $*" >&2 && exit 1; }
		sleep 0.1
	done
}

cat >"$HOME/ear.pa" <<PA
load-module module-null-sink sink_name=ear
load-module module-native-protocol-unix auth-anonymous=1 socket=$XDG_RUNTIME_DIR/pulse.sock
PA
pulseaudio -n --use-pid-file=0 --exit-idle-time=-1 --disable-shm=1 -F "$HOME/ear.pa" >"$HOME/pulse.log" 2>&1 &
pids="$! $pids"
export PULSE_SERVER="unix:$XDG_RUNTIME_DIR/pulse.sock"
until_ok pactl list short sinks

# shellcheck disable=SC2211 # one architecture, one file
/usr/lib/*/xfce4/notifyd/xfce4-notifyd >"$HOME/notifyd.log" 2>&1 &
pids="$! $pids"
owned() {
	dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner \
		string:org.freedesktop.Notifications | grep -q 'boolean true'
}
until_ok owned

parec -d ear.monitor --raw --format=s16le --rate=22050 --channels=1 --latency-msec=10 >"$HOME/ear.raw" &
ear=$!
heard() { [ -s "$HOME/ear.raw" ]; }
until_ok heard

result=0
"$@" || result=$?

shown() { xdotool search --onlyvisible --class xfce4-notifyd; }
until_ok shown
sleep 0.5 # xfce4-notifyd fades in
mkdir -p "$artifacts"
import -window root "$artifacts/popup.png"
kill "$ear" && wait "$ear" 2>/dev/null || true
sox -t raw -r 22050 -e signed -b 16 -c 1 "$HOME/ear.raw" "$artifacts/voice.wav"
# silence at both ends would water the figure down
sox "$artifacts/voice.wav" "$HOME/trimmed.wav" silence 1 0.05 1% reverse silence 1 0.05 1% reverse
echo "popups $(shown | wc -l)"
echo "shot $artifacts/popup.png"
echo "rms $(sox "$HOME/trimmed.wav" -n stat 2>&1 | awk '/^RMS.*amplitude/ { print $3 }')"
exit $result
