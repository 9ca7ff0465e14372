#!/bin/sh
# rpm: $1 is how many versions will be installed, 1 for a first installation.
if [ "$1" -gt 1 ]; then renew; else welcome; fi
exit 0
