package envelope

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// deploys is how certain it is that a text, or an assignment, orders a deployment.
type deploys uint8

const (
	deploysNot   deploys = iota
	deploysMaybe         // possibly a deployment: a finding
	deploysSure          // a deployment: the gate holds it
)

// deployRule says what a clause means whose tagged words match: aimed where the clause names an environment as its
// destination, else bare.
type deployRule struct {
	pattern     string
	aimed, bare deploys
}

// deployRules judge one clause; the first that matches counts. An order has the verb at the head of a clause ("Deploy to
// staging"), tells the agent to carry out a deployment ("Run the production rollout"), or names a deployment as the whole
// work ("Production deployment"). Writing about, reviewing, testing or repairing a deployment is no such order.
// See docs/decisions.md, "A deployment is an order, not a word".
var deployRules = []deployRule{
	{`{F}`, deploysNot, deploysNot},
	{`^{D} {C}`, deploysNot, deploysNot},
	{`^{D} {TP}`, deploysSure, deploysNot}, // a "deploy script" is a script
	{`^{D} {G}`, deploysSure, deploysMaybe},
	{`^{D}|^<go> <live>`, deploysSure, deploysSure},
	{`^(?:{R}|<roll> <out>) {TPGC}`, deploysNot, deploysNot},
	{`^<push>|^(?:{R}|<roll> <out>) (?:.* )?{W}`, deploysSure, deploysNot},
	{`^(?:{R}|<roll> <out>)`, deploysSure, deploysMaybe},
	{`^{X} (?:{^BGWTDN} ){0,4}(?:[./]*deploy[.-]|<deploying|redeploying>)`, deploysSure, deploysSure},
	{`^{X} (?:{^BGWTDN} ){0,4}{DN}(?:$| {BPI})`, deploysSure, deploysSure},
	{`^(?:{QAEI} )*(?:{N}|<deploy|release>) (?:.* )?{C}`, deploysMaybe, deploysNot}, // "Deployment to production fails"
	{`^(?:{QAEI} )*(?:{N}|<deploy>)(?:$| {BI})`, deploysSure, deploysSure},
	{`^(?:{QAEI} )*{E} (?:{QAEI} )*<release>(?:$| {BI})`, deploysSure, deploysSure},
	{`^(?:{QAEI} )*<release>(?:$| {BI})`, deploysSure, deploysMaybe},
	{`^{M} (?:.* )?<live>$`, deploysMaybe, deploysMaybe},
	{`^{M}`, deploysMaybe, deploysNot},
	{`^{O}|{W}`, deploysNot, deploysNot},
	{`(?:^| )deploy|{N}`, deploysMaybe, deploysNot},
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
func judgeClause(words string) (verdict deploys, aimed bool) {
	if !strings.ContainsAny(words, "DNRM") && !strings.Contains(words, "deploy") && !strings.Contains(words, "live") && !strings.Contains(words, "roll") {
		return deploysNot, false
	}
	aimed = aimsAt().MatchString(words)
	i := slices.IndexFunc(rulePatterns(), func(p *regexp.Regexp) bool { return p.MatchString(words) })
	switch {
	case i < 0:
		return deploysNot, aimed
	case aimed:
		return deployRules[i].aimed, true
	}
	return deployRules[i].bare, false
}

// readDeploys judges whether a text orders a deployment. target: it names an environment for that.
func readDeploys(text string) (sure deploys, target bool) {
	text = strings.ToLower(text)
	rehearsal := strings.Contains(text, "dry-run") || strings.Contains(text, "dry run") || strings.Contains(text, "rehears")
	for _, c := range clauses(text) {
		verdict, aimed := judgeClause(c.words)
		if verdict == deploysSure && (c.described || c.loose && !aimed || rehearsal) {
			verdict = deploysMaybe
		}
		if c.described && !aimed {
			verdict = deploysNot
		}
		sure, target = max(sure, verdict), target || aimed && verdict > deploysNot
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
	place := aimsAt().MatchString(tagged(strings.Fields(strings.ToLower("to " + w.environment))))
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
	list := clauses(strings.ToLower(w.name))
	return len(list) > 0 && otherWork().MatchString(list[0].words)
}
