# steward: build, try, test, measure. `make` alone runs check; `make help` lists the targets.

GO      ?= go
VERSION ?= $(shell sh packaging/version.sh)
LDFLAGS  = -s -w -buildid= -X main.release=$(VERSION)
DIR     ?= .
# Nothing that steward talks to needs HTTP/2, which would be half a megabyte and a part of every start.
TAGS     = nethttpomithttp2
BUILD    = CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -buildvcs=false -ldflags "$(LDFLAGS)"

.DEFAULT_GOAL = check

.PHONY: help build run demo test check race lint fuzz long bench size cross packages release deps clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

build: ## build ./steward
	@$(BUILD) -o steward ./cmd/steward

run: build ## build, then supervise DIR (default: this folder)
	@./steward run --project "$(DIR)"

demo: build ## build, then play the protocol's four scenarios
	@./steward demo

deps: ## install what the tests need (root on Debian; says what is left out elsewhere)
	@sh packaging/ci/test-deps.sh

test: deps ## all tests, short forms, and the 20 slowest
	@sh packaging/ci/test.sh

check: ## the quick loop, and what make alone does: format, vet, the policies and the adapters; under a minute when the cache is warm
	@bad=$$(git ls-files '*.go' | xargs gofmt -l); [ -z "$$bad" ] || { echo "gofmt would change: $$bad"; exit 1; }
	@$(GO) vet ./...
	@$(GO) test -short -timeout 0 . ./config ./heartbeat ./capacity ./escalate/rules ./supervisor/decide ./protocol/...

race: ## the short tests under the race detector, of the packages that start goroutines
	@GO="$(GO)" sh packaging/ci/race.sh

lint: ## formatting, vet on all platforms, staticcheck, shell scripts
	@sh packaging/ci/lint.sh

fuzz: ## every fuzz target for a moment (FUZZTIME=5s)
	@sh packaging/ci/fuzz.sh $(or $(FUZZTIME),2s)

long: ## the tortures at full length
	@sh bench/long.sh

bench: build ## measure the figures and print them beside their targets
	@sh bench/run.sh

size: ## lines of code per package beside its budget
	@sh packaging/ci/size.sh

cross: ## build for every platform
	@sh packaging/ci/cross.sh

packages: ## deb, rpm and archive for this machine into dist (PLATFORMS="linux/amd64 linux/arm64" FORMATS=deb)
	@VERSION="$(VERSION)" PLATFORMS="$(PLATFORMS)" FORMATS="$(FORMATS)" sh packaging/build.sh

release: ## the same for all platforms, and the Homebrew formula
	@VERSION="$(VERSION)" PLATFORMS=all sh packaging/build.sh

clean: ## remove what was built
	@rm -rf steward dist
