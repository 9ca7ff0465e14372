package supervisor_test

import (
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// settings are those that the program ships with (config.toml).
func settings() decide.Config {
	rule := func(code, severity, action string, attempts int, delay time.Duration, factor, timeout float64, then string) rules.Rule {
		longest := 10 * time.Minute
		if action == rules.ActionWait {
			longest = 168 * time.Hour
		}
		return rules.Rule{Code: code, Severity: severity, Action: action, Attempts: attempts, Delay: delay, Factor: factor,
			MaxDelay: longest, TimeoutFactor: timeout, Then: then}
	}
	table := []rules.Rule{
		rule("CAPACITY_EXCEEDED", "", protocol.ActionDefer, 3, time.Minute, 2, 1, rules.ThenAlert),
		rule("FILE_NOT_FOUND", "", protocol.ActionRetry, 2, 30*time.Second, 1, 2, rules.ThenDead),
		rule("TIMEOUT", "", protocol.ActionRetry, 2, 10*time.Second, 1, 2, rules.ThenDead),
	}
	for _, code := range []string{"PERMISSION_DENIED", "EXECUTION_FAILED", "VALIDATION_FAILED", "GIT_CONFLICT", "UNKNOWN_ERROR"} {
		table = append(table, rules.Rule{Code: code, Action: protocol.ActionStop, Then: rules.ThenAlert})
	}
	table = append(table,
		rule("RATE_LIMITED", "", rules.ActionWait, 10, 15*time.Minute, 1, 1, rules.ThenAlert),
		rule("AGENT_LOST", "", protocol.ActionRetry, 2, 30*time.Second, 1, 1, rules.ThenDead),
		rule("", "warning", protocol.ActionRetry, 3, 10*time.Second, 2, 1, rules.ThenDead),
		rule("", "error", protocol.ActionRetry, 2, 10*time.Second, 2, 2, rules.ThenDead),
		rules.Rule{Severity: "fatal", Action: protocol.ActionStop, Then: rules.ThenAlert})
	return decide.Config{
		LookEvery: 5 * time.Second,
		Human:     "Jesse", FaultAfter: time.Minute,
		Heartbeat: heartbeat.Config{Late: 45 * time.Second, Dead: 90 * time.Second, StartGrace: time.Minute, ResumeGrace: 30 * time.Second,
			Hung: 10 * time.Minute, HungAction: heartbeat.HungAlert},
		Locks: heartbeat.LockConfig{TTL: 30 * time.Minute, Watch: 30 * time.Second},
		Capacity: capacity.Config{Threshold: 0.8, RetryAfter: time.Minute, Hysteresis: 0.05, Calm: 3 * time.Second, CalmMemory: 10 * time.Second,
			PromoteAfter: 10 * time.Minute, AlarmAfter: 10 * time.Minute, StarveAfter: 30 * time.Minute, Near: 0.1,
			ClaimCores: 1, ClaimMemoryMB: 1024, ClaimDecays: 10 * time.Second, ClaimLapses: 30 * time.Second,
			SampleEvery: time.Second, SampleNear: 250 * time.Millisecond, SampleIdle: 5 * time.Second},
		Tasks: decide.TaskConfig{Timeout: 300 * time.Second, MaxTimeout: time.Hour, Settle: 6 * time.Second, Judge: 2 * time.Second,
			Presume: 10 * time.Second, Lease: time.Minute, LogAfter: 2 * time.Second, RetriesPerHour: 60, History: time.Hour},
		Retry: rules.RetryConfig{Rules: table, MaxAttempts: 10, MaxTimeout: time.Hour},
	}
}
