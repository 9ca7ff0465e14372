#!/bin/sh
# Debian: remove, then perhaps purge. Users' homes, with their settings and history, are theirs.
case "$1" in
remove) reload ;;
purge)
	# The machine service's history; another steward's unit may still want it.
	[ -e /etc/systemd/system/steward.service ] || rm -rf /var/lib/steward
	;;
esac
exit 0
