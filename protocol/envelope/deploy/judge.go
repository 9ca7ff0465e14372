// Package deploy judges by its words whether an assignment orders a deployment (protocol 004, Security Gate Protocol).
package deploy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Certainty is how certain it is that a text, or an assignment, orders a deployment.
type Certainty uint8

// How certain it is.
const (
	Not   Certainty = iota
	Maybe           // possibly a deployment: a finding
	Sure            // a deployment: the gate holds it
)

// deployRule says what a clause means whose tagged words match: aimed where the clause names an environment as its
// destination, else bare.
type deployRule struct {
	pattern     string
	aimed, bare Certainty
}

// deployRules judge one clause; the first that matches counts. An order has the verb at the head of a clause ("Deploy to
// staging"), tells the agent to carry out a deployment ("Run the production rollout"), or names a deployment as the whole
// work ("Production deployment"). Writing about, reviewing, testing or repairing a deployment is no such order.
// See docs/decisions.md, "A deployment is an order, not a word".
var deployRules = []deployRule{
	{`{F}`, Not, Not},
	{`^{D} {C}`, Not, Not},
	{`^{D} {TP}`, Sure, Not}, // a "deploy script" is a script
	{`^{D} {G}`, Sure, Maybe},
	{`^{D}|^<go> <live>`, Sure, Sure},
	{`^(?:{R}|<roll> <out>) {TPGC}`, Not, Not},
	{`^<push>|^(?:{R}|<roll> <out>) (?:.* )?{W}`, Sure, Not},
	{`^(?:{R}|<roll> <out>)`, Sure, Maybe},
	{`^{X} (?:{^BGWTDN} ){0,4}(?:[./]*deploy[.-]|<deploying|redeploying>)`, Sure, Sure},
	{`^{X} (?:{^BGWTDN} ){0,4}{DN}(?:$| {BPI})`, Sure, Sure},
	{`^(?:{QAEI} )*(?:{N}|<deploy|release>) (?:.* )?{C}`, Maybe, Not}, // "Deployment to production fails"
	{`^(?:{QAEI} )*(?:{N}|<deploy>)(?:$| {BI})`, Sure, Sure},
	{`^(?:{QAEI} )*{E} (?:{QAEI} )*<release>(?:$| {BI})`, Sure, Sure},
	{`^(?:{QAEI} )*<release>(?:$| {BI})`, Sure, Maybe},
	{`^{M} (?:.* )?<live>$`, Maybe, Maybe},
	{`^{M}`, Maybe, Not},
	{`^{O}|{W}`, Not, Not},
	{`(?:^| )deploy|{N}`, Maybe, Not},
}

// The patterns are compiled on first use: short steward commands need none.
var (
	rulePatterns = sync.OnceValue(func() (list []*regexp.Regexp) {
		for _, r := range deployRules {
			list = append(list, tagPattern(r.pattern))
		}
		return list
	})
	// aimsAt matches an environment as a destination: "to production".
	aimsAt    = lazilyTagged(`(?:^| )<to|into|onto|on|in> (?:{AI} )*{E}(?: {E})*(?:$| {BH})`)
	lead      = lazilyTagged(`^(?:(?:{LI}|<go> <ahead>)(?: |$))*`)
	otherWork = lazilyTagged(`^{O}`)
	hardBreak = folder.Pattern(`[()\[\]{}→]|[.;:!?][^\pL\pN/]*(?:\s|$)`)
	softBreak = folder.Pattern(`,[^\pL\pN/]*(?:\s|$)`)
)

// judgeClause judges tagged words. Most clauses hold no word that can mean a deployment, and no pattern is tried on them.
func judgeClause(words string) (verdict Certainty, aimed bool) {
	if !strings.ContainsAny(words, "DNRM") && !strings.Contains(words, "deploy") && !strings.Contains(words, "live") && !strings.Contains(words, "roll") {
		return Not, false
	}
	aimed = aimsAt().MatchString(words)
	i := slices.IndexFunc(rulePatterns(), func(p *regexp.Regexp) bool { return p.MatchString(words) })
	switch {
	case i < 0:
		return Not, aimed
	case aimed:
		return deployRules[i].aimed, true
	}
	return deployRules[i].bare, false
}

// readDeploys judges whether a text orders a deployment. target: it names an environment for that.
func readDeploys(text string) (sure Certainty, target bool) {
	text = strings.ToLower(text)
	rehearsal := strings.Contains(text, "dry-run") || strings.Contains(text, "dry run") || strings.Contains(text, "rehears")
	for _, c := range clauses(text) {
		verdict, aimed := judgeClause(c.words)
		if verdict == Sure && (c.described || c.loose && !aimed || rehearsal) {
			verdict = Maybe
		}
		if c.described && !aimed {
			verdict = Not
		}
		sure, target = max(sure, verdict), target || aimed && verdict > Not
	}
	return sure, target
}

// clause is a part of a text as tagged words, without what precedes the verb ("please", "step 3").
type clause struct {
	words string
	// loose: a comma or "and" precedes the clause, so an earlier phrase like "how to" may govern it too.
	loose bool
	// described: the preceding text describes something instead of ordering it.
	described bool
}

// clauses splits a text in lower case.
func clauses(text string) (list []clause) {
	var words []string
	described, loose := false, false
	end := func(soft bool) {
		rest := tagged(words)
		if rest = rest[len(lead().FindString(rest)):]; rest != "" {
			list = append(list, clause{rest, loose, described})
			described = described || strings.Contains(rest, "W")
		}
		words, loose = nil, soft
	}
	text = strings.NewReplacer("_", " ", "deploy-prod", "deploy prod", "deploy-staging", "deploy staging").Replace(text)
	text = softBreak().ReplaceAllString(hardBreak().ReplaceAllString(text, " . "), " , ")
	for token := range strings.FieldsSeq(text + " .") {
		switch word := strings.TrimFunc(token, isMark); {
		case strings.Trim(token, ".-–—→>|/") == "":
			end(false)
		case token == "," || token == "&" || token == "+" || word == "and" || word == "then":
			end(true)
		case word != "":
			words = append(words, word)
		}
	}
	return list
}

func isMark(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '/'
}

// Of judges an assignment by its texts. production: it concerns production itself.
func Of(assignment, context jsonfile.Object, requirements []string) (sure Certainty, production bool) {
	w := wordsOf(assignment, context, requirements)
	return w.deploys(), w.production()
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
// name states other work ("Implement …"), the remaining texts can raise the result to Maybe at most.
func (w taskWords) deploys() Certainty {
	sure, _ := readDeploys(w.name)
	if sure == Sure {
		return sure
	}
	ordinary := w.ordinary()
	phase, _ := readDeploys(w.phase)
	place := aimsAt().MatchString(tagged(strings.Fields(strings.ToLower("to " + w.environment))))
	switch {
	case sure == Maybe && !ordinary && (place || phase > Not):
		return Sure
	case ordinary:
	case phase > Not && place:
		return Sure
	case phase > Not:
		sure = Maybe
	}
	for _, text := range w.details {
		switch found, target := readDeploys(text); {
		case found == Sure && (target || place) && !ordinary:
			return Sure
		case found == Sure, found == Maybe && !ordinary:
			sure = max(sure, Maybe)
		}
	}
	return sure
}

// ordinary reports whether the name begins with a verb for other work.
func (w taskWords) ordinary() bool {
	list := clauses(strings.ToLower(w.name))
	return len(list) > 0 && otherWork().MatchString(list[0].words)
}

// productionWord matches production. Its first group matches words that exclude production: "before production", "must
// not touch production". Only unambiguous words may stand in between: in doubt, the text means production.
var productionWord = folder.Pattern(`(?i)(before[ -](?:the |go(?:ing)?[ -])?|pre[ -]?|non[ -]?|` +
	`\b(?:not|no|never|nor|without|cannot|\w+n['’]t)(?:\s+(?:be|go|going|touch(?:ing)?|affect(?:ing)?|change|reach|use|` +
	`deploy(?:ed)?|release(?:d)?|push(?:ed)?|roll(?:ed)?|out|in|on|to|into|for|the|a|any|our)){0,4}[\s-]+)?` +
	`\b(?:prod(?:uction)?|live)\b`)

// namesProduction reports whether a text names production itself, and not a stage before it.
func namesProduction(text string) bool {
	return slices.ContainsFunc(productionWord().FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] == "" })
}
