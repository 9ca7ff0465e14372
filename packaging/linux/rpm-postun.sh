#!/bin/sh
# rpm: $1 is how many versions are left, 0 after a removal. rpm knows no purge: /var/lib/steward stays.
if [ "$1" -eq 0 ]; then reload; fi
exit 0
