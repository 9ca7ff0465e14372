package envelope

import (
	"slices"
	"strings"
	"unicode"

	"github.com/livhana/steward/protocol/jsonfile"
)

// deploys is how certain it is that a text, or an assignment, orders a deployment.
type deploys uint8

const (
	deploysNot   deploys = iota
	deploysMaybe         // possibly a deployment: a finding
	deploysSure          // a deployment: the gate holds it
)

// phrase is one clause of a text, in lower case, without what precedes the verb ("please", "step 3").
type phrase struct {
	words []string
	// loose: a comma or "and" precedes the clause, so an earlier phrase like "how to" may govern it too.
	loose bool
	// described: the preceding text describes something instead of ordering it.
	described bool
}

// readDeploys judges whether a text orders a deployment. An order has the verb at the head of a clause ("Deploy to
// staging"), tells the agent to carry out a deployment ("Run the production rollout"), or names a deployment as the whole
// work ("Production deployment"). Writing about, reviewing, testing or repairing a deployment is no such order. target:
// the text names an environment. See docs/decisions.md, "A deployment is an order, not a word".
func readDeploys(text string) (sure deploys, target bool) {
	rehearsal := rehearses(text)
	for _, c := range phrases(text) {
		verdict, aims := c.judge(), hasTarget(c.words)
		if verdict == deploysSure && (c.described || c.loose && !aims || rehearsal) {
			verdict = deploysMaybe
		}
		if c.described && !aims {
			verdict = deploysNot
		}
		sure, target = max(sure, verdict), target || aims && verdict > deploysNot
	}
	return sure, target
}

// judge judges one clause by its first words.
func (c phrase) judge() deploys {
	if len(c.words) == 0 || slices.ContainsFunc(c.words, negates) {
		return deploysNot
	}
	head, rest := c.words[0], c.words[1:]
	switch {
	case deployVerbs.has(head):
		return judgeVerb(rest)
	case head == "go" && len(rest) > 0 && rest[0] == "live":
		return deploysSure
	case releaseVerbs.has(head):
		return judgeRelease(head, rest)
	case executionVerbs.has(head):
		if verdict := judgeDone(rest); verdict > deploysNot {
			return verdict
		}
	}
	if verdict := judgeNoun(c.words); verdict > deploysNot {
		return verdict
	}
	if moveVerbs.has(head) && (hasTarget(rest) || len(rest) > 0 && rest[len(rest)-1] == "live") {
		return deploysMaybe
	}
	if hasTarget(c.words) && !otherVerbs.has(head) && !slices.ContainsFunc(c.words, describing.has) &&
		slices.ContainsFunc(c.words, func(w string) bool { return strings.HasPrefix(w, "deploy") || deployNouns.has(w) }) {
		return deploysMaybe
	}
	return deploysNot
}

// judgeVerb judges the words after the verb "deploy": its object, a thing that only serves deployments, or a complaint.
func judgeVerb(rest []string) deploys {
	switch {
	case len(rest) == 0:
		return deploysSure
	case complaints.has(rest[0]):
		return deploysNot
	case tools.has(rest[0]) && !hasTarget(rest):
		return deploysNot
	case documents.has(rest[0]) && !hasTarget(rest):
		return deploysMaybe
	}
	return deploysSure
}

// judgeRelease judges a verb that means a deployment only if it names an environment.
func judgeRelease(head string, rest []string) deploys {
	if head == "roll" {
		if len(rest) == 0 || rest[0] != "out" {
			return deploysNot
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) > 0 && (tools.has(rest[0]) || documents.has(rest[0]) || complaints.has(rest[0])):
		return deploysNot
	case hasTarget(rest):
		return deploysSure
	case head == "push" || slices.ContainsFunc(rest, describing.has):
		return deploysNot
	}
	return deploysMaybe
}

// judgeDone judges the words after a verb like "run": a deployment, or a program that carries out a deployment.
func judgeDone(rest []string) deploys {
	for i, w := range rest[:min(len(rest), 5)] {
		switch {
		case strings.HasPrefix(strings.TrimLeft(w, "./"), "deploy.") || strings.HasPrefix(strings.TrimLeft(w, "./"), "deploy-"):
			return deploysSure
		case w == "deploying" || w == "redeploying":
			return deploysSure
		case deployNouns.has(w) || deployVerbs.has(w):
			after := rest[i+1:]
			if len(after) == 0 || prepositions.has(after[0]) || programs.has(after[0]) || isNumber(after[0]) {
				return deploysSure
			}
			return deploysNot
		case prepositions.has(w) || tools.has(w) && !programs.has(w) || documents.has(w) || describing.has(w):
			return deploysNot
		}
	}
	return deploysNot
}

// judgeNoun judges a clause that names a deployment, with only qualifying words before the noun.
func judgeNoun(words []string) deploys {
	i := slices.IndexFunc(words, func(w string) bool { return deployNouns.has(w) || w == "deploy" || w == "release" })
	if i < 0 || slices.ContainsFunc(words, complaints.has) || slices.ContainsFunc(words[:i], func(w string) bool { return !qualifies(w) }) {
		return deploysNot
	}
	if after := words[i+1:]; len(after) > 0 && !prepositions.has(after[0]) && !isNumber(after[0]) {
		return deploysNot
	}
	if words[i] == "release" && !slices.ContainsFunc(words[:i], environments.has) && !hasTarget(words) {
		return deploysMaybe
	}
	return deploysSure
}

// hasTarget reports whether the words name an environment as a destination: "to production".
func hasTarget(words []string) bool {
	for i, w := range words {
		switch w {
		case "to", "into", "onto", "on", "in":
		default:
			continue
		}
		rest := words[i+1:]
		for len(rest) > 0 && (articles.has(rest[0]) || isNumber(rest[0])) {
			rest = rest[1:]
		}
		if len(rest) == 0 || !environments.has(rest[0]) {
			continue
		}
		for len(rest) > 1 && environments.has(rest[1]) {
			rest = rest[1:]
		}
		if len(rest) == 1 || prepositions.has(rest[1]) || hostWords.has(rest[1]) {
			return true
		}
	}
	return false
}

// rehearses reports whether the text describes a rehearsal, which changes nothing.
func rehearses(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "dry-run") || strings.Contains(text, "dry run") || strings.Contains(text, "rehears")
}

// phrases splits a text into clauses.
func phrases(text string) []phrase {
	var list []phrase
	var words []string
	described, loose := false, false
	end := func(soft bool) {
		if cut := withoutLead(words); len(cut) > 0 {
			list = append(list, phrase{words: cut, loose: loose, described: described})
			described = described || slices.ContainsFunc(cut, describing.has)
		}
		words, loose = nil, soft
	}
	text = strings.NewReplacer("_", " ", "deploy-prod", "deploy prod", "deploy-staging", "deploy staging").Replace(strings.ToLower(text))
	for _, raw := range strings.Fields(text) {
		before := strings.TrimLeftFunc(raw, isMark)
		if before != raw && strings.ContainsAny(raw[:len(raw)-len(before)], "([{→") {
			end(false)
		}
		word := strings.TrimRightFunc(before, isMark)
		switch tail := before[len(word):]; {
		case word == "" && strings.Trim(raw, "-–—→>|/") == "":
			end(false)
		case word == "" && (raw == "&" || raw == "+"), word == "and" || word == "then":
			end(true)
		default:
			if word != "" {
				words = append(words, word)
			}
			if strings.ContainsAny(tail, ".;:!?)]}") {
				end(false)
			} else if strings.Contains(tail, ",") {
				end(true)
			}
		}
	}
	end(false)
	return list
}

func isMark(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '/'
}

// withoutLead strips the words that may precede the verb of an order.
func withoutLead(words []string) []string {
	for len(words) > 0 {
		switch w := words[0]; {
		case isNumber(w) || strings.HasSuffix(w, "ly") && len(w) > 4:
		case leads.has(w) || w == "go" && len(words) > 1 && words[1] == "ahead":
		default:
			return words
		}
		words = words[1:]
	}
	return words
}

// taskWords are the texts of an assignment that describe the work.
type taskWords struct {
	name, phase, environment string
	details                  []string // requirements and descriptions
}

// wordsOf collects the texts of an assignment that describe the work.
func wordsOf(o, context jsonfile.Object, requirements []string) taskWords {
	w := taskWords{details: slices.Clone(requirements)}
	w.name, _ = o.String("task_name")
	for _, from := range []jsonfile.Object{o, context} {
		for key, to := range map[string]*string{"phase": &w.phase, "environment": &w.environment} {
			if text, _ := from.String(key); text != "" {
				*to = strings.TrimSpace(*to + " " + text)
			}
		}
		if text, _ := from.String("description"); text != "" {
			w.details = append(w.details, text)
		}
	}
	return w
}

// production reports whether the work concerns production itself.
func (w taskWords) production() bool {
	return slices.ContainsFunc(append([]string{w.name, w.phase, w.environment}, w.details...), namesProduction)
}

// deploys judges the work by its name first, then by phase and environment, then by requirements and descriptions. If the
// name states other work ("Implement …"), the remaining texts can raise the result to deploysMaybe at most.
func (w taskWords) deploys() deploys {
	sure, _ := readDeploys(w.name)
	if sure == deploysSure {
		return sure
	}
	ordinary := w.ordinary()
	phase, _ := readDeploys(w.phase)
	place := hasTarget(append([]string{"to"}, strings.Fields(strings.ToLower(w.environment))...))
	switch {
	case sure == deploysMaybe && !ordinary && (place || phase > deploysNot):
		return deploysSure
	case ordinary:
	case phase > deploysNot && place:
		return deploysSure
	case phase > deploysNot:
		sure = deploysMaybe
	}
	for _, text := range w.details {
		switch found, target := readDeploys(text); {
		case found == deploysSure && (target || place) && !ordinary:
			return deploysSure
		case found == deploysSure, found == deploysMaybe && !ordinary:
			sure = max(sure, deploysMaybe)
		}
	}
	return sure
}

// ordinary reports whether the name begins with a verb for other work.
func (w taskWords) ordinary() bool {
	list := phrases(w.name)
	return len(list) > 0 && otherVerbs.has(list[0].words[0])
}
