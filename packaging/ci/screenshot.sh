#!/bin/sh
# Takes the picture of a popup in the documents anew (docs/images/popup.png): a real agent's question on a real desktop
# without a screen, as test/e2e's TestHumanAtTheDesk sees it. It needs what packaging/ci/test-deps.sh installs.
set -eu
cd "$(dirname "$0")/../.."
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
STEWARD_HEADLESS=1 STEWARD_ARTIFACTS="$kept" "${GO:-go}" test -count=1 -run '^TestHumanAtTheDesk$/^click$' -v ./test/e2e
if [ ! -s "$kept/popup.png" ]; then
	echo "no picture: the test was skipped, see above"
	exit 1
fi
mkdir -p docs/images
cp "$kept/popup.png" docs/images/popup.png
echo "docs/images/popup.png: $(wc -c <docs/images/popup.png) bytes"
