#!/bin/sh
# Formatting, vet on all platforms, staticcheck, and the shell scripts.
set -eu
cd "$(dirname "$0")/../.."
bad=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$bad" ]; then
	echo "gofmt would change: $bad"
	exit 1
fi
go vet ./...
go vet -tags packaging ./cmd/steward
go vet -C bench ./...
CGO_ENABLED=0 GOOS=darwin go vet ./...
CGO_ENABLED=0 GOOS=darwin go vet -C bench ./...
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
if command -v shellcheck >/dev/null 2>&1; then
	# The protocol document's own boot scripts are kept as they are.
	git ls-files '*.sh' | grep -v -e 'testdata/.*_boot\.sh$' -e '^bench/scripts/' | xargs shellcheck -S warning
else
	echo "skipped: shellcheck is not installed"
fi
go mod verify >/dev/null
go mod tidy -diff
go -C bench mod tidy -diff
