#!/bin/sh
# What all package scripts share: packaging/build.sh puts this text before each of them, so that an installed script
# needs no second file. Debian's own deb-systemd-invoke --user will not do here: in Debian 12 its restart starts a
# unit for every later user once one user runs it, and any other verb goes to the machine's manager.
set -e

unit=steward.service
program=/usr/bin/steward

# booted: there is a systemd to talk to. Not so in a container's or an image's build.
booted() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; }

# allowed ACTION: the administrator's policy (Debian) has nothing against it.
allowed() {
	command -v policy-rc.d >/dev/null 2>&1 || return 0
	verdict=0
	policy-rc.d "$unit" "$1" >/dev/null 2>&1 || verdict=$?
	[ "$verdict" -ne 101 ]
}

# managers prints the number of each user whose systemd runs.
managers() {
	for socket in /run/user/*/systemd/private; do
		[ -S "$socket" ] || continue
		uid=${socket#/run/user/}
		echo "${uid%%/*}"
	done
}

# as UID COMMAND…: runs it as that user, in a session without the terminal, for no longer than two minutes: what
# belongs to a user must neither type into root's terminal nor hold a transaction up.
as() (
	uid=$1
	gid=$(id -g "$uid" 2>/dev/null) || exit 1
	shift
	exec timeout -k 5 120 setsid -w setpriv --reuid "$uid" --regid "$gid" --init-groups \
		env -i PATH=/usr/bin:/bin LC_ALL=C XDG_RUNTIME_DIR="/run/user/$uid" "$@" </dev/null 2>/dev/null
)

# ours [UID]: the unit that this manager knows runs the packaged program, not one from elsewhere. The answer goes
# through a file because a pipe would wait for whoever keeps it open.
ours() (
	answer=$(mktemp) || exit 1
	trap 'rm -f "$answer"' EXIT
	if [ -n "${1:-}" ]; then
		as "$1" systemctl --user show -p ExecStart "$unit" >"$answer" || exit 1
	else
		timeout -k 5 30 systemctl show -p ExecStart "$unit" >"$answer" 2>/dev/null || exit 1
	fi
	grep -q "path=$program " "$answer"
)

# reload makes every manager read its units again.
reload() {
	booted || return 0
	timeout -k 5 60 systemctl daemon-reload >/dev/null 2>&1 || :
	for uid in $(managers); do
		as "$uid" systemctl --user daemon-reload >/dev/null || :
	done
}

# renew follows an upgrade: every steward that runs is restarted. The old one hands its held tasks to the new one.
renew() {
	reload
	booted && allowed try-restart || return 0
	if ours; then
		timeout -k 5 120 systemctl try-restart "$unit" </dev/null >/dev/null 2>&1 ||
			echo "steward: the machine's service did not restart; see: systemctl status $unit"
	fi
	for uid in $(managers); do
		ours "$uid" || continue
		as "$uid" systemctl --user try-restart "$unit" >/dev/null ||
			echo "steward: user $uid's service did not restart; see, as that user: systemctl --user status $unit"
	done
}

# withdraw comes before a removal: nothing may stay held, and no unit may name a program that is gone.
withdraw() {
	if grep -q "^ExecStart=$program " "/etc/systemd/system/$unit" 2>/dev/null; then
		timeout -k 5 120 "$program" service uninstall --system </dev/null ||
			echo "steward: the machine's service was not removed; remove /etc/systemd/system/$unit by hand"
	fi
	booted || return 0
	stops=yes
	allowed stop || stops=
	for uid in $(managers); do
		ours "$uid" || continue
		if [ -z "$stops" ]; then
			echo "steward: policy-rc.d forbids to stop user $uid's service, so it runs on without its program; as that user: systemctl --user disable --now $unit"
			continue
		fi
		# It stops, disables, and clears away what only a service needs. Should it fail, systemd alone must do.
		if as "$uid" "$program" service uninstall >/dev/null; then continue; fi
		as "$uid" systemctl --user stop "$unit" >/dev/null ||
			echo "steward: user $uid's service did not stop; as that user: systemctl --user stop $unit"
		as "$uid" systemctl --user disable "$unit" >/dev/null || :
	done
}

welcome() {
	echo "steward is installed and not running yet. To have it run as your service, now and after each log-in,"
	echo "give as yourself, not as root: steward service install"
}
