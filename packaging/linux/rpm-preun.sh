#!/bin/sh
# rpm: $1 is how many versions will be left, 0 for a removal.
if [ "$1" -eq 0 ]; then withdraw; fi
exit 0
