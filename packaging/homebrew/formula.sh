#!/bin/sh
# Prints the Homebrew formula of a release: formula.sh VERSION DIR, where DIR holds the release's archives.
set -eu
version=$1 dir=$2
page=https://github.com/livhana/steward

# source_of OS ARCH: the two lines that say where an archive is and what it is.
source_of() {
	file=steward_${version}_$1_$2.tar.gz
	sum=$(sha256sum "$dir/$file" | cut -d ' ' -f 1)
	printf '      url "%s/releases/download/v%s/%s"\n      sha256 "%s"\n' "$page" "$version" "$file" "$sum"
}

cat <<EOF
class Steward < Formula
  desc "Supervisor of AI coding agents that share project folders"
  homepage "$page"
  version "$version"
  license "MIT"

  on_macos do
    on_arm do
$(source_of darwin arm64)
    end
    on_intel do
$(source_of darwin amd64)
    end
  end

  on_linux do
    on_arm do
$(source_of linux arm64)
    end
    on_intel do
$(source_of linux amd64)
    end
  end

  def install
    bin.install "steward"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    bash_completion.install "completions/steward.bash" => "steward"
    zsh_completion.install "completions/_steward"
    fish_completion.install "completions/steward.fish"
    pkgshare.install "boot", "config.toml"
  end

  # No service block: steward writes its own definition, and a second one from \`brew services\` would run beside it.
  def caveats
    <<~EOS
      To have steward run now and after each log-in:
        steward service install
      Restart it after an upgrade, so that the new version takes over:
        steward service install
      Before \`brew uninstall steward\`, so that nothing stays held:
        steward service uninstall
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/steward version")
    assert_match "[capacity]", shell_output("#{bin}/steward config --defaults")
  end
end
EOF
