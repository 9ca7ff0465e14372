package envelope

import (
	"slices"
	"strings"
	"unicode"
)

// wordList is words separated by white space. These lists distinguish an order to deploy from work about deployments.
type wordList string

func (list wordList) has(word string) bool {
	return slices.Contains(strings.Fields(string(list)), word)
}

const (
	deployVerbs wordList = "deploy redeploy re-deploy deploying redeploying"
	deployNouns wordList = "deployment deployments redeployment rollout roll-out go-live golive cutover cut-over"
	// releaseVerbs mean a deployment if an environment is their target; moveVerbs may mean one.
	releaseVerbs wordList = "release releasing publish ship push promote launch roll rollout"
	moveVerbs    wordList = "hotfix upload move put take get bring make switch copy sync transfer install"
	// executionVerbs carry out a deployment that their object names.
	executionVerbs wordList = `run perform execute do trigger start initiate kick carry complete begin finish launch conduct make retry repeat finalize
		continue resume handle`
	// otherVerbs, at the head of a clause, state work that is not itself a deployment.
	otherVerbs wordList = `write document describe review audit test verify check fix refactor implement design plan prepare investigate analyze analyse
		research update add create build draft improve set setup configure estimate explain debug propose remove monitor validate assess rename
		ensure clean support define evaluate automate simplify speed reduce extend integrate study summarize summarise list collect develop code
		security repair resolve diagnose mock simulate report discuss decide compare`
	// describing words show that their clause describes a deployment instead of ordering it.
	describing wordList = `how about docs doc documentation document guide guides runbook runbooks readme steps plan plans script scripts pipeline
		pipelines workflow workflows instructions if when whether before without which that why explain describe until unless checklist`
	negations wordList = "not no never nor cannot without avoid stop"
	// complaints: "deploy fails" and "deployment is slow" are not orders.
	complaints wordList = `is are was were isn't fails fail failed failing broken breaks crash crashes hangs slow error errors bug bugs issue issues
		problem problems failure failures takes needs does must should`
	// programs deploy when they run. tools only serve deployments: a "deploy script" is a script.
	programs wordList = "script scripts pipeline pipelines workflow workflows job jobs command commands playbook playbooks action"
	tools    wordList = programs + ` button buttons page dialog process plan plans checklist config configs configuration settings step steps
		stage stages key keys flag flags hook hooks log logs test tests check checks template templates time times status tool tools tooling
		logic url urls token tokens permission permissions secrets strategy history notification notifications notes date dates candidate
		branch branches metrics alert alerts request requests event events handler handlers window schedule policy gate`
	documents    wordList = "doc docs documentation guide guides runbook runbooks instructions readme"
	environments wordList = "production prod staging stage live preprod pre-prod pre-production preproduction uat qa canary"
	articles     wordList = "the a an our its their this all"
	prepositions wordList = "to of on in into onto at via with using by from for after before when once now today tonight tomorrow"
	// hostWords, after an environment's name, still mean the environment.
	hostWords wordList = `env environment environments cluster clusters server servers host hosts site system systems fleet region slot infrastructure
		namespace vps account box instance instances`
	// qualifiers may precede the noun "deployment" when the deployment itself is meant.
	qualifiers wordList = environments + " " + articles + ` final initial full new next mvp app application website web site backend frontend api
		service server code hotfix blue-green blue/green rolling manual automated automatic vercel kubernetes k8s aws gcp azure heroku cloud`
	// leads may precede the verb of an order.
	leads wordList = "please now next also just let's lets we you need to step task phase todo ticket first ahead"
)

func negates(w string) bool {
	return negations.has(w) || strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "n’t")
}

func qualifies(w string) bool { return qualifiers.has(w) || isNumber(w) }

// isNumber reports whether the word is a number, a version or a ticket: 3, v1.2, REL-12.
func isNumber(w string) bool {
	return strings.ContainsFunc(w, unicode.IsDigit) && !strings.HasPrefix(w, "deploy")
}
