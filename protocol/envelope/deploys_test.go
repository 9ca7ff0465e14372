package envelope

import (
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/protocoltest"
)

// A task's name decides: a deployment is held, a possible deployment is a finding, other work is not affected.
func TestDeploysByName(t *testing.T) {
	for want, names := range map[deploys][]string{
		deploysSure: {
			"Deploy", "Deploy to production", "deploy to staging", "Redeploy the app", "Deploy v1.2 to prod", "Please deploy the API", "Deploying the app to production",
			"Step 3: Deploy to production", "TASK-12 Deploy the site", "[INFRA] Deploy to staging", "Phase 1 - Deploy to staging", "1. Deploy the backend", "DEVOPS: deploy the app",
			"Build the image and deploy to production", "Test the app, then deploy it to staging", "Write tests and deploy to staging", "Safely deploy the database",
			"Deploy the fix for the login bug to production", "Deploy the script to production", "Deploy documentation to production", "Deploy pipeline to production",
			"Production deployment", "Staging deploy", "Deployment to production", "Deployment of v2", "MVP deployment", "Final production rollout", "Production release",
			"Run the production deployment", "Run the deploy pipeline", "Execute deploy.sh", "Trigger the blue-green rollout", "Carry out the deployment", "Run npm run deploy",
			"Kick off the staging deployment", "Perform a rollout to production",
			"Release to production", "Ship it to production", "Push the build to prod", "Promote build 12 to the live environment", "Roll out v3 to staging", "Go live",
			"Roll out the new checkout to the production cluster", "Publish the site to production", "We need to deploy to production",
			"deploy-prod", "deploy_to_production", "Start deploying the app", "Retry the deployment", "Review and deploy the app to staging", "🚀 Deploy to prod", "**Deploy** to production",
		},
		deploysMaybe: {
			"Release v2.0", "Ship it", "Roll out the new checkout", "Launch", "Deploy documentation", "Build the image and deploy", "Get the app deployed to production", "Hotfix to prod", "Make the site live", "Try to deploy to staging",
			"Deploy to production (dry run)", "Write the runbook and deploy to production", "Document how to build and deploy to production",
		},
		deploysNot: {
			"Write docs about deployment", "Review deployment scripts", "Test the deploy pipeline", "Fix the deploy script", "Document how to deploy", "Describe the deployment",
			"Do not deploy yet", "Never deploy on Fridays", "Don't deploy to production", "Must not deploy", "Verify the staging deployment", "Plan the production deployment",
			"Prepare the production rollout", "Deploy script", "Deploy button on the settings page", "Deploy fails on CI", "Deployment is slow", "Deployment documentation",
			"Production deployment checklist", "Automate deployment", "Set up the deployment pipeline", "Implement the deployment module", "Security review of the deployment",
			"Run tests before deployment", "Run the deployment tests", "Fix build and deploy scripts", "Write docs about how to build and deploy the app", "Push notifications",
			"Push notifications to live users", "Write release notes", "Release notes for production", "Push the branch", "Implement login", "Build the API", "Design the release process",
			"Review the production config", "Add a deploy command", "Investigate why the deployment fails", "Check whether we can deploy", "", "Do dev_1", "Complete deployment guide",
			"Start deployment documentation", "Live chat", "Update the staging database schema", "Launch page copy",
			"Migrate the production database", "Add a button that deploys to production", "Set up automatic deployment to production", "Smoke test the production deployment",
			"Start the staging server", "Run the load test on staging", "Write deploy.sh", "Push to the production branch", "Make login work",
		},
	} {
		for _, name := range names {
			if got := (taskWords{name: name}).deploys(); got != want {
				t.Errorf("%q: %d, want %d", name, got, want)
			}
		}
	}
}

// Requirements, descriptions, phase and environment count too. A name that states other work prevents a hold.
func TestDeploysByDetails(t *testing.T) {
	for _, row := range []struct {
		w    taskWords
		want deploys
	}{
		{taskWords{name: "Finish the sprint", details: []string{"Deploy to production"}}, deploysSure},
		{taskWords{name: "Finish the sprint", details: []string{"tell the team", "deploy the app"}}, deploysMaybe},
		{taskWords{name: "Finish the sprint", details: []string{"deploy the app"}, environment: "staging"}, deploysSure},
		{taskWords{name: "Implement login", details: []string{"Deploy to production"}}, deploysMaybe},
		{taskWords{name: "Implement login", details: []string{"the app deploys without downtime", "Must run in production"}}, deploysNot},
		{taskWords{name: "Implement login", phase: "Deployment", environment: "production"}, deploysNot},
		{taskWords{name: "Write docs about deployment", phase: "Deployment", environment: "production"}, deploysNot},
		{taskWords{name: "Release v2", environment: "production"}, deploysSure},
		{taskWords{name: "Release v2", phase: "Production rollout"}, deploysSure},
		{taskWords{name: "The big day", phase: "Deployment", environment: "production"}, deploysSure},
		{taskWords{name: "The big day", phase: "deployment"}, deploysMaybe},
		{taskWords{name: "The big day", phase: "development", environment: "production"}, deploysNot},
	} {
		if got := row.w.deploys(); got != row.want {
			t.Errorf("%+v: %d, want %d", row.w, got, row.want)
		}
	}
}

// A deployment is held until it is approved, whichever agent it is for, and ends with that agent's own completion.
func TestDeploymentByWordsIsHeld(t *testing.T) {
	for _, agent := range []string{"DEVOPS", "DEVELOPER", "DOCUMENTATION"} {
		s := newSite(t, "")
		one := s.send(assign("d2", agent).with(fields{"task_name": "Deploy to production"}))
		snap := s.rest()
		if s.has(one) || protocoltest.Codes(snap, "d2") != "security_gate critical" || !strings.Contains(taskOf(snap, "d2").Block, "no approval by SECURITY_AUDITOR") {
			t.Fatalf("%s: %+v %s", agent, taskOf(snap, "d2"), protocoltest.Codes(snap, "d2"))
		}
		s.send(assign("sec", "SECURITY_AUDITOR"))
		s.send(verdict("sec", "APPROVED", false))
		if s.rest(); !s.has(one) {
			t.Fatalf("%s: not released", agent)
		}
		s.send(complete("d2", agent, true))
		if snap = s.rest(); taskOf(snap, "d2").Outcome == nil || protocoltest.Codes(snap, "d2") != "" {
			t.Errorf("%s: %+v %s", agent, taskOf(snap, "d2"), protocoltest.Codes(snap, "d2"))
		}
	}
}

// A suspected deployment is not held. It is a finding while there is no approval, and a more severe one if it names
// production.
func TestSuspectedDeployment(t *testing.T) {
	s := newSite(t, "")
	one := s.send(assign("r1", "DEVOPS").with(fields{"task_name": "Release v2"}))
	two := s.send(assign("r2", "DEVELOPER").with(fields{"task_name": "Implement login", "requirements": []string{"Deploy to production"}}))
	snap := s.rest()
	if !s.has(one) || !s.has(two) || protocoltest.Codes(snap, "r1") != "security_gate medium" || protocoltest.Codes(snap, "r2") != "security_gate high" {
		t.Errorf("%s, %s", protocoltest.Codes(snap, "r1"), protocoltest.Codes(snap, "r2"))
	}
	review := s.send(assign("sec", "SECURITY_AUDITOR").with(fields{"task_name": "Deploy to production"}))
	if snap = s.rest(); !s.has(review) || !strings.HasPrefix(protocoltest.Codes(snap, "sec"), "security_gate high") {
		t.Errorf("a review waits for its own approval: %s", protocoltest.Codes(snap, "sec"))
	}
	s.send(verdict("sec", "APPROVED", false))
	if snap = s.rest(); protocoltest.Codes(snap, "r1")+protocoltest.Codes(snap, "r2") != "" {
		t.Errorf("approved: %s, %s", protocoltest.Codes(snap, "r1"), protocoltest.Codes(snap, "r2"))
	}
}

// The names of the deployers are configurable.
func TestDeployersAreConfigured(t *testing.T) {
	options := testOptions
	options.Deployers = []string{"ops-bot"}
	s := newSite(t, "")
	s.p = New(s.Dir, options)
	t.Cleanup(s.p.Close)
	s.send(assign("a", "OPS_BOT_AGENT"))
	s.send(assign("b", "DEPLOYMENT"))
	snap := s.rest()
	if a, b := taskOf(snap, "a"), taskOf(snap, "b"); a.Visible || !b.Visible {
		t.Errorf("%+v, %+v", a, b)
	}
}
