package deploy

import "testing"

// A task's name decides: a deployment is held, a possible deployment is a finding, other work is not affected.
func TestDeploysByName(t *testing.T) {
	for want, names := range map[Certainty][]string{
		Sure: {
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
		Maybe: {
			"Release v2.0", "Ship it", "Roll out the new checkout", "Launch", "Deploy documentation", "Build the image and deploy", "Get the app deployed to production", "Hotfix to prod", "Make the site live", "Try to deploy to staging",
			"Deploy to production (dry run)", "Write the runbook and deploy to production", "Document how to build and deploy to production",
		},
		Not: {
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
		want Certainty
	}{
		{taskWords{name: "Finish the sprint", details: []string{"Deploy to production"}}, Sure},
		{taskWords{name: "Finish the sprint", details: []string{"tell the team", "deploy the app"}}, Maybe},
		{taskWords{name: "Finish the sprint", details: []string{"deploy the app"}, environment: "staging"}, Sure},
		{taskWords{name: "Implement login", details: []string{"Deploy to production"}}, Maybe},
		{taskWords{name: "Implement login", details: []string{"the app deploys without downtime", "Must run in production"}}, Not},
		{taskWords{name: "Implement login", phase: "Deployment", environment: "production"}, Not},
		{taskWords{name: "Write docs about deployment", phase: "Deployment", environment: "production"}, Not},
		{taskWords{name: "Release v2", environment: "production"}, Sure},
		{taskWords{name: "Release v2", phase: "Production rollout"}, Sure},
		{taskWords{name: "The big day", phase: "Deployment", environment: "production"}, Sure},
		{taskWords{name: "The big day", phase: "deployment"}, Maybe},
		{taskWords{name: "The big day", phase: "development", environment: "production"}, Not},
	} {
		if got := row.w.deploys(); got != row.want {
			t.Errorf("%+v: %d, want %d", row.w, got, row.want)
		}
	}
}

func TestProduction(t *testing.T) {
	for text, want := range map[string]bool{
		"Deploy to production": true, "PROD": true, "staging, then prod.": true, "production-like": true, "fix before production": false, "pre-production": false,
		"preproduction": false, "non-production": false, "nonprod": false, "pre-prod": false, "before production, deploy to production": true,
		"must not touch production": false, "not in production": false, "no production": false, "don't deploy to the live system": false, "never in prod": false,
		"before go-live": false, "go live": true, "Live!": true, "roll out to prod": true, "not only staging but production": true, "do not wait, go to production": true,
		"no tests. Production": true, "must not skip production": true, "deliver": false, "Deploy": false,
		"product page": false, "reproduction": false, "staging": false, "": false,
	} {
		if namesProduction(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
