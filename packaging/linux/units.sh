#!/bin/sh
# Writes the packaged user units: units.sh STEWARD DIR. They are what `steward service install` would write, made free
# of the user and the machine that build them: there is no systemctl in the PATH, so no version of systemd to suit, and
# a unit for all users names none.
set -eu
text=$(env -i PATH=/nonexistent HOME=/nonexistent XDG_RUNTIME_DIR=/nonexistent "$1" service unit --binary /usr/bin/steward)
printf '%s\n' "$text" | sed -e 's/^# Written by .*/# From the package. Changes belong into a drop-in: systemctl --user edit steward/' |
	awk -v dir="$2" '
		# Each unit begins with its path in a comment, as in `systemctl cat`; without one, all of it is the first unit.
		/^# .*\/steward(-failed)?\.service$/ { sub(/.*\//, ""); file = $0; next }
		{ if (file == "") file = "steward.service"; print > (dir "/" file) }'
for unit in steward steward-failed; do
	if [ ! -s "$2/$unit.service" ]; then
		echo "units.sh: steward service unit did not print $unit.service" >&2
		exit 1
	fi
done
if ! grep -qx 'ExecStart=/usr/bin/steward run --service' "$2/steward.service" ||
	grep -n -e '^User=' -e "${HOME:-/nonexistent}/" -e nonexistent "$2"/*.service; then
	echo "units.sh: the units must start /usr/bin/steward run --service, and name neither a user nor a home folder" >&2
	exit 1
fi
