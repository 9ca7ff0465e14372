#!/bin/sh
# Makes everything that a release consists of, and prints one line for each file. The same commit gives the same bytes,
# wherever and whenever it is run. Needs Go, git, GNU tar and gzip. The environment may say:
#   VERSION            what is built (default: what packaging/version.sh prints)
#   SOURCE_DATE_EPOCH  its time (default: the commit's)
#   OUT                where to (default: dist), from the repository's root
#   PLATFORMS          e.g. "linux/amd64 darwin/arm64" (default: this machine's), or "all", which also writes the Homebrew formula
#   FORMATS            of "tar deb rpm sbom"
set -eu
cd "$(dirname "$0")/.."
everything="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"
: "${VERSION:=$(sh packaging/version.sh)}" "${OUT:=dist}" "${PLATFORMS:=$(go env GOOS)/$(go env GOARCH)}" "${FORMATS:=tar deb rpm sbom}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
[ "$PLATFORMS" != all ] || PLATFORMS=$everything
# only WHAT ALLOWED VALUES…: ends with a message at a value that is not allowed.
only() {
	what=$1 allowed=$2
	shift 2
	for value in "$@"; do
		case " $allowed " in
		*" $value "*) ;;
		*) echo "packaging/build.sh: $what=$value is not supported; use: $allowed" >&2 && exit 2 ;;
		esac
	done
}
# shellcheck disable=SC2086 # the lists are meant to be split
only PLATFORMS "$everything" $PLATFORMS
# shellcheck disable=SC2086
only FORMATS "tar deb rpm sbom" $FORMATS
# What of the surroundings could reach the bytes, beside the folder's name, which -trimpath takes away.
export VERSION SOURCE_DATE_EPOCH CGO_ENABLED=0 GOFLAGS="" LC_ALL=C TZ=UTC
unset GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT
umask 022

name=${VERSION#v}
# The order of deb and rpm: 1.0.0~rc.1 before 1.0.0 before 1.0.0+3.gabc, and a bare commit before all releases.
case $name in
[0-9]*.*) PACKAGE_VERSION=$name ;;
*) PACKAGE_VERSION=0.0.0-git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$name ;;
esac
PACKAGE_VERSION=$(echo "$PACKAGE_VERSION" |
	sed -E 's/-dirty$/+dirty/; s/-([0-9]+)-(g[0-9a-f]+)/+\1.\2/; s/-/~/; s/-/./g')
export PACKAGE_VERSION

mkdir -p "$OUT"
out=$(cd "$OUT" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made=

wants() { case " $FORMATS " in *" $1 "*) true ;; *) false ;; esac; }
keep() { made="$made $1"; }

# program GOOS GOARCH FILE
program() {
	GOOS=$1 GOARCH=$2 go build -tags nethttpomithttp2 -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.release=$VERSION" -o "$3" ./cmd/steward
}

# common DIR: what is the same on every platform.
common() {
	mkdir -p "$1/completions" "$1/boot" "$1/man"
	cp LICENSE config.toml "$1"
	# The pages that it links to are not in the packages.
	sed 's,](\(docs/\|packaging/\|config\.toml\),](https://github.com/livhana/steward/blob/main/\1,g' README.md >"$1/README.md"
	"$host" completion bash >"$1/completions/steward.bash"
	"$host" completion zsh >"$1/completions/_steward"
	"$host" completion fish >"$1/completions/steward.fish"
	for script in packaging/boot/*.sh; do
		install -m 755 "$script" "$1/boot"
	done
	install -m 644 packaging/boot/README.md "$1/boot"
	STEWARD_MAN_DIR=$1/man go test -count=1 -tags packaging -run '^TestManPages$' ./cmd/steward >"$work/log" 2>&1 ||
		{ cat "$work/log"; exit 1; }
	sh packaging/linux/man5.sh "$VERSION" "$SOURCE_DATE_EPOCH" <config.toml >"$1/man/steward.toml.5"
}

# stamp DIR gives every file the one time.
stamp() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# archive GOOS GOARCH BINARY: the folder's name leads, the binary and the texts that its libraries ask for are in it.
archive() {
	top=steward_${name}_$1_$2
	cp -R "$work/common" "$work/$top"
	install -m 755 "$3" "$work/$top"
	cp "${3%/*}/THIRD-PARTY.txt" "$work/$top"
	stamp "$work/$top"
	tar -C "$work" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$top" |
		gzip -9n >"$out/$top.tar.gz"
	keep "$top.tar.gz"
}

# layout: the folder that nfpm packs from, as nfpm.yaml names its parts.
layout() {
	mkdir -p "$work/linux/man1" "$work/linux/man5" "$work/linux/scripts"
	cp -R "$work/common/." packaging/linux/copyright packaging/linux/lintian-overrides "$work/linux"
	for section in 1 5; do
		for page in "$work"/linux/man/*."$section"; do
			gzip -9nc "$page" >"$work/linux/man$section/${page##*/}.gz"
		done
	done
	sh packaging/linux/changelog.sh "$PACKAGE_VERSION" "$SOURCE_DATE_EPOCH" | gzip -9n >"$work/linux/changelog.gz"
	mkdir "$work/linux/units"
	sh packaging/linux/units.sh "$host" "$work/linux/units"
	for script in deb-postinst deb-prerm deb-postrm rpm-post rpm-preun rpm-postun; do
		cat packaging/linux/managers.sh packaging/linux/$script.sh >"$work/linux/scripts/$script.sh"
	done
}

# package FORMAT GOARCH BINARY
package() {
	[ -d "$work/linux" ] || layout
	install -m 755 "$3" "$work/linux/steward"
	cp "${3%/*}/THIRD-PARTY.txt" "$work/linux"
	stamp "$work/linux"
	file=steward_${name}_$2.deb
	[ "$1" = deb ] || file=steward-$name-1.$(echo "$2" | sed 's/amd64/x86_64/; s/arm64/aarch64/').rpm
	RPM_RELEASE=
	[ "$1" = deb ] || RPM_RELEASE=1
	(cd "$work/linux" && ARCH=$2 RPM_RELEASE=$RPM_RELEASE "$nfpm" package -p "$1" -f "$here/packaging/nfpm.yaml" -t "$out/$file") >"$work/log" 2>&1 ||
		{ cat "$work/log"; exit 1; }
	keep "$file"
}

here=$(pwd)
host=$work/host/steward
nfpm=
if wants deb || wants rpm; then nfpm=$(go -C packaging/tools tool -n nfpm); fi
program "" "" "$host"
common "$work/common"
for platform in $PLATFORMS; do
	os=${platform%/*} arch=${platform#*/}
	binary=$work/$os-$arch/steward
	if [ "$platform" = "$(go env GOOS)/$(go env GOARCH)" ]; then
		mkdir -p "$work/$os-$arch" && cp "$host" "$binary"
	else
		program "$os" "$arch" "$binary"
	fi
	go run ./packaging/sbom -notices "$binary" >"$work/$os-$arch/THIRD-PARTY.txt"
	if wants tar; then archive "$os" "$arch" "$binary"; fi
	if wants sbom; then
		go run ./packaging/sbom -version "$VERSION" "$binary" >"$out/steward_${name}_${os}_$arch.cdx.json"
		keep "steward_${name}_${os}_$arch.cdx.json"
	fi
	[ "$os" = linux ] || continue
	for format in deb rpm; do
		if wants "$format"; then package "$format" "$arch" "$binary"; fi
	done
done
if [ "$PLATFORMS" = "$everything" ] && wants tar; then
	sh packaging/homebrew/formula.sh "$name" "$out" >"$out/steward.rb"
	keep steward.rb
fi
cd "$out"
# shellcheck disable=SC2086 # the list is meant to be split
sha256sum $made | LC_ALL=C sort -k 2 >SHA256SUMS
# shellcheck disable=SC2086
wc -c $made SHA256SUMS | awk '$2 != "total" {printf "%-44s %9d\n", $2, $1}'
