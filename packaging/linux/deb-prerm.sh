#!/bin/sh
# Debian: remove; upgrade and the others leave what runs alone, the new package's postinst restarts it.
if [ "$1" = remove ]; then withdraw; fi
exit 0
