#!/bin/sh
# Reads config.toml and prints steward.toml(5): man5.sh VERSION SECONDS. The settings are the file itself, word for
# word: its comments are the only place where they are explained.
set -eu
cat <<EOF
.TH "STEWARD.TOML" "5" "$(date -u -d "@$2" +'%b %Y')" "steward $1" "File Formats"
.SH NAME
steward.toml \\- the settings of steward
.SH SYNOPSIS
.nf
\\fI~/.config/steward/config.toml\\fR
\\fI/etc/steward/config.toml\\fR (machine service)
.fi
.SH DESCRIPTION
Everything has a default, and the file need not exist. It overrides the defaults below and holds only what differs.
An unknown key is an error. \\fBsteward config \\-\\-check\\fR \\fIFILE\\fR checks a file,
\\fBsteward config\\fR prints what is in force, \\fBsteward reload\\fR has the running steward read it again.
.SH SETTINGS
.nf
EOF
sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
cat <<'EOF'
.fi
.SH SEE ALSO
\fBsteward(1)\fR, \fBsteward\-config(1)\fR
EOF
