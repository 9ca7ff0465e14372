package envelope

import (
	"slices"
	"strings"
	"unicode"
)

// These word lists distinguish an order to deploy from work about deployments.

func among(word, list string) bool { return slices.Contains(strings.Fields(list), word) }

func isDeployVerb(w string) bool {
	return among(w, "deploy redeploy re-deploy deploying redeploying")
}

func isDeployNoun(w string) bool {
	return among(w, "deployment deployments redeployment rollout roll-out go-live golive cutover cut-over")
}

// isReleaseVerb reports whether the verb means a deployment if an environment is its target.
func isReleaseVerb(w string) bool {
	return among(w, "release releasing publish ship push promote launch roll rollout")
}

func isDoVerb(w string) bool {
	return among(w, "run perform execute do trigger start initiate kick carry complete begin finish launch conduct make retry repeat finalize continue resume handle")
}

// isMoveVerb reports whether the verb may mean a deployment if an environment is its target.
func isMoveVerb(w string) bool {
	return among(w, "hotfix upload move put take get bring make switch copy sync transfer install")
}

// isOrdinary reports whether the verb, at the head of a clause, states work that is not itself a deployment.
func isOrdinary(w string) bool {
	return among(w, `write document describe review audit test verify check fix refactor implement design plan prepare investigate analyze analyse
		research update add create build draft improve set setup configure estimate explain debug propose remove monitor validate assess rename
		ensure clean support define evaluate automate simplify speed reduce extend integrate study summarize summarise list collect develop code
		security repair resolve diagnose mock simulate report discuss decide compare`)
}

// speaksAbout reports whether a clause with the word describes a deployment instead of ordering it.
func speaksAbout(w string) bool {
	return among(w, `how about docs doc documentation document guide guides runbook runbooks readme steps plan plans script scripts pipeline pipelines workflow
		workflows instructions if when whether before without which that why explain describe until unless checklist`)
}

func negates(w string) bool {
	return among(w, "not no never nor cannot without avoid stop") || strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "n’t")
}

// complains reports whether the word makes a complaint: "deploy fails" and "deployment is slow" are not orders.
func complains(w string) bool {
	return among(w, `is are was were isn't fails fail failed failing broken breaks crash crashes hangs slow error errors bug bugs issue issues problem
		problems failure failures takes needs does must should`)
}

// isTool reports whether the word names a thing that serves deployments: a "deploy script" is a script.
func isTool(w string) bool {
	return isProgram(w) || among(w, `button buttons page dialog process plan plans checklist config configs configuration settings step steps stage stages
		key keys flag flags hook hooks log logs test tests check checks template templates time times status tool tools tooling logic url urls token tokens
		permission permissions secrets strategy history notification notifications notes date dates candidate branch branches metrics alert alerts
		request requests event events handler handlers window schedule policy gate`)
}

// isProgram reports whether running the named thing means deploying.
func isProgram(w string) bool {
	return among(w, "script scripts pipeline pipelines workflow workflows job jobs command commands playbook playbooks action")
}

func isDocument(w string) bool {
	return among(w, "doc docs documentation guide guides runbook runbooks instructions readme")
}

func isEnvironment(w string) bool {
	return among(w, "production prod staging stage live preprod pre-prod pre-production preproduction uat qa canary")
}

func isArticle(w string) bool { return among(w, "the a an our its their this all") }

func isPreposition(w string) bool {
	return among(w, "to of on in into onto at via with using by from for after before when once now today tonight tomorrow")
}

// isPlace reports whether the word, after an environment's name, still means the environment.
func isPlace(w string) bool {
	return among(w, `env environment environments cluster clusters server servers host hosts site system systems fleet region slot infrastructure namespace
		vps account box instance instances`)
}

// qualifies reports whether the word may precede the noun "deployment" when the deployment itself is meant.
func qualifies(w string) bool {
	return isEnvironment(w) || isArticle(w) || isNumber(w) || among(w, `final initial full new next mvp app application website web site backend frontend
		api service server code hotfix blue-green blue/green rolling manual automated automatic vercel kubernetes k8s aws gcp azure heroku cloud`)
}

// isNumber reports whether the word is a number, a version or a ticket: 3, v1.2, REL-12.
func isNumber(w string) bool {
	return strings.ContainsFunc(w, unicode.IsDigit) && !strings.HasPrefix(w, "deploy")
}
