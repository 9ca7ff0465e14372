#!/bin/sh
# Debian: configure [OLD-VERSION], or the undoing of something that failed, which needs nothing here.
if [ "$1" = configure ]; then
	if [ -n "${2:-}" ]; then renew; else welcome; fi
fi
exit 0
