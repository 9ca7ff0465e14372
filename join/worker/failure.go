package worker

import (
	"cmp"
	"strings"
)

// tail is the last part of an output, where a command usually says why it failed.
func tail(text string) string {
	const most = 16 << 10
	if len(text) > most {
		text = text[len(text)-most:]
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

func lastLine(text string) string {
	for text != "" {
		text = strings.TrimRight(text, " \t\r\n")
		i := strings.LastIndexByte(text, '\n')
		if words := line(text[i+1:], 300); words != "" {
			return words
		}
		text = text[:max(i, 0)]
	}
	return ""
}

func firstLine(text string) string {
	for l := range strings.Lines(text) {
		if words := line(l, longestSummary); words != "" {
			return words
		}
	}
	return ""
}

// conflictMessage is a conflict message of git, and the file that it names.
type conflictMessage struct{ words, file string }

// Messages of git (merge-ort, merge-recursive, rebase, cherry-pick, pull, commit).
var (
	conflictIn    = lazily(`(?m)^CONFLICT \([^)\n]+\): (?:Merge conflict in (\S[^\n]*?)|(\S+)[^\n]*)\s*$`)
	unmerged      = lazily(`(?m)^(?:U\t|error: '|\tboth (?:modified|added):\s+)?(\S[^\n']*?)(?:: needs merge|: unmerged \([0-9a-f]+\))\s*$`)
	conflictWords = lazily(`(?m)^(?:Automatic merge failed[^\n]*|error: could not apply [0-9a-f]{4,}[^\n]*|(?:error|fatal): (?:[A-Z][a-z-]+ is not possible because you have unmerged files|Exiting because of (?:an )?unresolved conflict|you need to resolve your current index first)[^\n]*)`)
)

// conflict finds a merge conflict in the output of a failed command. A command that resolved a conflict prints the
// same, so do not use it for successful commands.
func conflict(text string) (conflictMessage, bool) {
	if m := conflictIn().FindStringSubmatch(text); m != nil {
		return conflictMessage{line(m[0], longestMessage), m[1] + m[2]}, true
	}
	words, file := conflictWords().FindString(text), ""
	if m := unmerged().FindStringSubmatch(text); m != nil {
		words, file = cmp.Or(words, m[0]), m[1]
	}
	return conflictMessage{line(words, longestMessage), file}, words != ""
}

var diskFull = lazily(`(?i)no space left on device|disk quota exceeded|\bENOSPC\b|\bEDQUOT\b|not enough space on the disk`)

// limitWords matches the rate limit messages of coding agents and their services. A bare "rate limit" does not match:
// the output of test suites is full of it.
var limitWords = lazily(`(?i)\b429\b[^\n]{0,20}\btoo many requests\b|\b(?:http|status|statuscode|error|code)\b[^\n]{0,12}\b429\b|` +
	`\brate_limit_(?:error|exceeded)\b|\brate[ -]limit(?:s)? (?:exceeded|reached|hit)\b|\brate[ -]limited\b|\b(?:hit|exceeded|reached)\b[^\n]{0,20}\b(?:rate|usage|session|weekly|daily|5-hour|spending) limit\b|` +
	`\b(?:usage|session|weekly|daily|hourly|5-hour|opus|sonnet|request|token|quota) limit (?:was |has been )?(?:reached|exceeded|hit)\b|\bquota exceeded\b|\binsufficient_quota\b|\bexceeded your current quota\b|` +
	`\bRESOURCE_EXHAUSTED\b|\blimit\b[^\n]{0,60}\bresets? (?:at |in )?\d`)

// resetWords matches the time at which a limit ends. It may stand on one of the next lines.
var resetWords = lazily(`(?i)\b(?:resets?|retry|try again|available again|wait)\b[^\n]*\d`)

// limited returns a rate limit message together with the time of its end: the retry policy reads the time from it.
func limited(text string) string {
	at := limitWords().FindStringIndex(text)
	if at == nil {
		return ""
	}
	begin := max(strings.LastIndexByte(text[:at[0]], '\n')+1, at[0]-200) // an agent's JSON line may be very long
	said, rest, _ := strings.Cut(text[begin:], "\n")
	words := line(said, longestMessage/2)
	if resetWords().MatchString(said) {
		return words
	}
	near := strings.SplitN(rest, "\n", 4)
	for _, next := range near[:min(len(near), 3)] {
		if resetWords().MatchString(next) {
			return words + "; " + line(next, longestMessage/2)
		}
	}
	return words
}
