#!/bin/sh
# Prints the lines of product code per package beside its budget. Tests, benchmarks and what makes packages do not count.
# See docs/decisions.md, "Most packages are over their budget of lines".
set -eu
cd "$(dirname "$0")/../.."
budgets='supervisor 4300
heartbeat 1000
capacity 1400
capacity/measure 1900
escalate 3300
status 5300
protocol 900
protocol/jsonfile 2700
protocol/folder 1900
protocol/agentstatus 2700
protocol/handoffs 2000
protocol/ralph 2700
protocol/mailbox 1800
protocol/envelope 2400
protocol/protocoltest 1150
join 6500
platform 6500
cmd/steward 4800
cmd/steward/daemon 2600
cmd/steward/doctor 900
config 900'
git ls-files '*.go' | grep -v -e '_test\.go$' -e '^bench/' -e '^packaging/' -e '^test/' -e testdata/ | xargs wc -l | grep -v ' total$' |
	awk -v budgets="$budgets" '
	BEGIN { n = split(budgets, row, "\n"); for (i = 1; i <= n; i++) { split(row[i], f, " "); name[i] = f[1]; budget[f[1]] = f[2] } }
	{
		dir = $2; sub("/[^/]*$", "", dir); if (dir == $2) dir = "."
		while (!(dir in budget) && dir ~ "/") sub("/[^/]*$", "", dir)
		lines[dir] += $1; all += $1
	}
	END {
		for (i = 1; i <= n; i++) { sum += budget[name[i]]; printf "%-24s %6d of %6d%s\n", name[i], lines[name[i]], budget[name[i]], (lines[name[i]] > budget[name[i]] ? "  over" : "") }
		printf "%-24s %6d of %6d\n", "all", all, sum
	}'
