package deploy

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/livhana/steward/protocol/folder"
)

// The words by which an order to deploy is distinguished from work about deployments, by class:
//
//	D  verbs that deploy
//	N  names of a deployment
//	R  verbs that deploy if an environment is their target
//	M  verbs that may deploy if an environment is their target
//	X  verbs that carry out what their object names
//	O  verbs of other work
//	W  words that write about something instead of ordering it
//	F  words that forbid
//	C  complaints
//	P  programs that deploy when they run
//	T  tools that only serve deployments
//	G  guides
//	E  environments
//	H  hosts, after the name of an environment
//	A  articles
//	B  prepositions
//	Q  words that qualify a deployment
//	L  words that may precede the verb of an order
//	I  numbers, versions and tickets (3, v1.2, REL-12)
const wordClasses = `
D deploy redeploy re-deploy deploying redeploying
N deployment deployments redeployment rollout roll-out go-live golive cutover cut-over
R release releasing publish ship push promote launch rollout
M hotfix upload move put take get bring make switch copy sync transfer install
X run perform execute do trigger start initiate kick carry complete begin finish launch conduct make retry repeat finalize continue
X resume handle
O write document describe review audit test verify check fix refactor implement design plan prepare investigate analyze analyse
O research update add create build draft improve set setup configure estimate explain debug propose remove monitor validate assess
O rename ensure clean support define evaluate automate simplify speed reduce extend integrate study summarize summarise list collect
O develop code security repair resolve diagnose mock simulate report discuss decide compare
W how about docs doc documentation document guide guides runbook runbooks readme steps plan plans script scripts pipeline pipelines
W workflow workflows instructions if when whether before without which that why explain describe until unless checklist
F not no never nor cannot without avoid stop
C is are was were isn't fails fail failed failing broken breaks crash crashes hangs slow error errors bug bugs issue issues problem
C problems failure failures takes needs does must should
P script scripts pipeline pipelines workflow workflows job jobs command commands playbook playbooks action
T button buttons page dialog process plan plans checklist config configs configuration settings step steps stage stages key keys
T flag flags hook hooks log logs test tests check checks template templates time times status tool tools tooling logic url urls
T token tokens permission permissions secrets strategy history notification notifications notes date dates candidate branch branches
T metrics alert alerts request requests event events handler handlers window schedule policy gate
G doc docs documentation guide guides runbook runbooks instructions readme
E production prod staging stage live preprod pre-prod pre-production preproduction uat qa canary
A the a an our its their this all
B to of on in into onto at via with using by from for after before when once now today tonight tomorrow
H env environment environments cluster clusters server servers host hosts site system systems fleet region slot infrastructure
H namespace vps account box instance instances
Q final initial full new next mvp app application website web site backend frontend api service server code hotfix blue-green
Q blue/green rolling manual automated automatic vercel kubernetes k8s aws gcp azure heroku cloud
L please now next also just let's lets we you need to step task phase todo ticket first ahead
`

// tagsOf maps each known word to the letters of its classes.
var tagsOf = sync.OnceValue(func() map[string]string {
	tags := map[string]string{}
	for line := range strings.Lines(wordClasses) {
		class, words, _ := strings.Cut(line, " ")
		for word := range strings.FieldsSeq(words) {
			tags[word] += class
		}
	}
	return tags
})

// tagged writes words with the letters of their classes.
func tagged(words []string) string {
	list := make([]string, len(words))
	for i, word := range words {
		tags := tagsOf()[word]
		if strings.ContainsFunc(word, unicode.IsDigit) && !strings.HasPrefix(word, "deploy") {
			tags += "I"
		}
		if strings.HasSuffix(word, "n't") || strings.HasSuffix(word, "n’t") {
			tags += "F"
		}
		if strings.HasSuffix(word, "ly") && len(word) > 4 {
			tags += "L"
		}
		list[i] = word + "\t" + tags
	}
	return strings.Join(list, " ")
}

var classMacro = folder.Pattern(`\{(\^?)(\w+)\}|<([^>]+)>`)

// tagPattern compiles a pattern of tagged words: {DN} is a word of one of these classes, {^DN} one of none of them, and
// <go|live> one of these words.
func tagPattern(pattern string) *regexp.Regexp {
	return regexp.MustCompile(classMacro().ReplaceAllStringFunc(pattern, func(macro string) string {
		m := classMacro().FindStringSubmatch(macro)
		switch {
		case m[3] != "":
			return `(?:` + m[3] + `)\t\w*`
		case m[1] != "":
			return `\S+\t[^ ` + m[2] + `]*`
		}
		return `\S+\t\w*[` + m[2] + `]\w*`
	}))
}

func lazilyTagged(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return tagPattern(pattern) })
}
