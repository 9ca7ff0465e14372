#!/bin/sh
# Stands in for launchctl: it keeps what is loaded in the folder $STUB and answers in launchctl's words and codes.
# Beside the state lie switches for the tests:
#   sessions   the domains that exist, one a line
#   eio        so many bootstraps fail as they do shortly after a bootout
#   lag        a service that is booted out is still seen so many times
#   slow       bootout answers "in progress"
#   brief      a process that runs ends after it was seen so many times
#   stubborn   the process does not listen to SIGTERM
# A program that ends with 0 when the stub calls it "lives"; another code is the code it fails with.
set -u
echo "$*" >>"$STUB/calls"

has() { grep -qx "$1" "$STUB/sessions"; }
place() { echo "$STUB/loaded/$(echo "$1" | tr / _)"; }
fail() { # code, words
	echo "$2" >&2
	exit "$1"
}
count() { # a switch that counts down; false at zero
	[ -f "$STUB/$1" ] || return 1
	n=$(cat "$STUB/$1")
	[ "$n" -gt 0 ] || return 1
	echo $((n - 1)) >"$STUB/$1"
}
get() { cat "$job/$1" 2>/dev/null; }
put() { printf '%s\n' "$2" >"$job/$1"; }
plain() { sed -e 's/&lt;/</g' -e 's/&gt;/>/g' -e "s/&#39;/'/g" -e 's/&#34;/"/g' -e 's/&amp;/\&/g'; }

# after KEY TAG: the text of the first TAG that follows the key in the plist.
after() { sed -n "/<key>$1</,\$p" "$plist" | sed -n "s:.*<$2>\\(.*\\)</$2>.*:\\1:p" | head -n 1 | plain; }

start() {
	put runs $(($(get runs) + 1))
	rm -f "$job/pid" "$job/exit" "$job/signal"
	program=$(get program)
	code=78
	[ -x "$program" ] && { "$program" && code=0 || code=$?; }
	if [ "$code" = 0 ]; then
		put state running
		put pid $((1000 + $(wc -l <"$STUB/calls")))
	else
		put state "spawn scheduled"
		put exit "$code$([ "$code" = 78 ] && echo ': EX_CONFIG')"
	fi
}

target=${2:-}
case $1 in
bootstrap)
	has "$2" || fail 125 "Bootstrap failed: 125: Domain does not support specified action"
	plist=$3 io="Bootstrap failed: 5: Input/output error
Try re-running the command as root for richer errors."
	count eio && fail 5 "$io"
	[ -f "$plist" ] || fail 5 "$io"
	label=$(after Label string)
	job=$(place "$2/$label")
	[ -d "$job" ] && fail 5 "$io"
	[ -f "$STUB/disabled" ] && fail 5 "$io"
	session=$(after LimitLoadToSessionType string)
	case $2/$session in
	gui/*/Aqua | user/*/Background | system/*) ;;
	*) fail 134 "Bootstrap failed: 134: Service cannot load in requested session" ;;
	esac
	mkdir -p "$job"
	put path "$plist"
	put runs 0
	put program "$(after ProgramArguments string)"
	start
	;;
bootout)
	job=$(place "$target")
	[ -d "$job" ] || fail 3 "Boot-out failed: 3: No such process"
	[ -f "$STUB/lag" ] || rm -r "$job"
	[ -f "$STUB/lag" ] && {
		cp "$STUB/lag" "$STUB/left"
		put state SIGTERMed
	}
	[ -f "$STUB/slow" ] && fail 36 "Boot-out failed: 36: Operation now in progress"
	;;
print)
	case $target in
	*/*/* | system/*) ;;
	*) has "$target" && { echo "$target = {"; echo "}"; exit 0; } || fail 113 "Could not find domain for $target" ;;
	esac
	job=$(place "$target")
	if [ "$(get state)" = SIGTERMed ] && ! count left; then rm -r "$job"; fi
	[ -d "$job" ] || fail 113 "Bad request.
Could not find service \"${target##*/}\" in domain for ${target%/*}"
	if [ -f "$STUB/brief" ] && [ -f "$job/pid" ] && ! count brief; then
		rm "$job/pid"
		put state "not running"
		put exit 1
	fi
	cat <<PRINT
$target = {
	active count = 1
	path = $(get path)
	type = LaunchAgent
	state = $(get state)

	program = $(get program)
	arguments = {
		$(get program)
		run
	}

	runs = $(get runs)
$([ -f "$job/pid" ] && echo "	pid = $(get pid)")
	last exit code = $(get exit || echo "(never exited)")
$([ -f "$job/signal" ] && echo "	last terminating signal = $(get signal)")
	endpoints = {
		"com.example" = {
			state = active
			pid = 1
		}
	}
}
PRINT
	;;
print-disabled)
	echo "disabled services = {"
	echo "	\"com.example.other\" => disabled"
	[ -f "$STUB/disabled" ] && echo "	\"com.livhana.steward\" => disabled"
	echo "}"
	;;
enable) rm -f "$STUB/disabled" ;;
disable) : >"$STUB/disabled" ;;
kill)
	job=$(place "$3")
	[ -f "$job/pid" ] || fail 3 "No process to signal."
	[ -f "$STUB/stubborn" ] || { rm "$job/pid"; put state "not running"; put exit 0; }
	;;
kickstart)
	[ "$2" = -k ] && target=$3
	job=$(place "$target")
	[ -d "$job" ] || fail 113 "Could not find service \"${target##*/}\" in domain for ${target%/*}"
	[ -f "$job/pid" ] && [ "$2" != -k ] && fail 37 "Could not kickstart service \"${target##*/}\": 37: Operation already in progress"
	start
	;;
*) fail 64 "Unrecognized subcommand: $1" ;;
esac
exit 0
