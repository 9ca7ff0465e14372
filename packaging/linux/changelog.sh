#!/bin/sh
# Prints Debian's changelog of one release: changelog.sh VERSION SECONDS.
set -eu
cat <<EOF
steward ($1) unstable; urgency=medium

  * Release $1.
  * What changed: https://github.com/livhana/steward/releases

 -- The steward authors <livhana@users.noreply.github.com>  $(LC_ALL=C date -u -R -d "@$2")
EOF
