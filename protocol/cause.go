package protocol

import "time"

// Cause is why a verdict is what it is. Policies hold no sentences: status/words turns a Cause into one.
// See docs/decisions.md, "Policies return causes, not sentences".
type Cause struct {
	Reason Reason `json:"reason,omitempty"`
	// Phrase names the sentence where the Reason alone does not; "" takes the sentence of the Reason.
	Phrase Phrase `json:"phrase,omitempty"`
	Facts  Facts  `json:"facts,omitzero"`
}

// Facts are the names, numbers and times that a sentence mentions. A zero value is absent. All durations but Limit end
// at the moment of the verdict, so the sentence stays true for that moment.
type Facts struct {
	// Base is a sentence about the same facts that the sentence of Cause.Phrase contains.
	Base  Phrase `json:"base,omitempty"`
	Agent string `json:"agent,omitempty"`
	Task  string `json:"task,omitempty"`
	Name  string `json:"name,omitempty"`
	Text  string `json:"text,omitempty"` // quoted from a file or a person
	PID   int    `json:"pid,omitempty"`
	Count int    `json:"count,omitempty"`
	Of    int    `json:"of,omitempty"`

	At    time.Time     `json:"at,omitzero"`
	Until time.Time     `json:"until,omitzero"`
	For   time.Duration `json:"for,omitempty"`   // how long it lasts already
	Age   time.Duration `json:"age,omitempty"`   // of the record that the sentence mentions
	Still time.Duration `json:"still,omitempty"` // since the last movement
	Limit time.Duration `json:"limit,omitempty"` // how long it may last

	Share    float64 `json:"share,omitempty"`    // of a resource, 0 to 1 or above
	Line     float64 `json:"line,omitempty"`     // the share that decides
	Reading  float64 `json:"reading,omitempty"`  // the measured part of Share
	Reserved float64 `json:"reserved,omitempty"` // the part of Share that is reserved for admitted tasks
}

// Phrase names a sentence of status/words.
type Phrase string

// The phrases of verdicts on agents.
const (
	PhraseHeldByUser    Phrase = "held_by_user"
	PhraseStopped       Phrase = "process_stopped"
	PhraseSaysPaused    Phrase = "says_paused"
	PhraseQuote         Phrase = "quote" // a sentence that an adapter made
	PhraseIdle          Phrase = "idle"
	PhraseKept          Phrase = "kept"
	PhraseOver          Phrase = "process_over"
	PhraseGone          Phrase = "process_gone"
	PhraseActive        Phrase = "active"
	PhraseKeptBeat      Phrase = "kept_beat"
	PhraseBeatsAgain    Phrase = "beats_again"
	PhraseRecent        Phrase = "recent_beat"
	PhraseLivesUnbeaten Phrase = "lives_without_beat"
	PhraseLives         Phrase = "but_lives"
	PhraseFilesMoved    Phrase = "but_files_moved"
	PhraseResumed       Phrase = "but_resumed"
	PhraseDoubted       Phrase = "but_doubted"
	PhraseHung          Phrase = "hung"
	PhraseLeft          Phrase = "left"
	PhraseNeverSeen     Phrase = "gone_before"
	PhraseAbsent        Phrase = "absent"
	PhraseNoBeatAtAll   Phrase = "never_registered"
	PhraseOnlyRecorded  Phrase = "only_recorded"
	PhraseDead          Phrase = "dead"

	// What is missing, and for how long.
	PhraseLastBeat          Phrase = "last_beat"
	PhraseRegistered        Phrase = "registered"
	PhraseWatched           Phrase = "watched"
	PhraseRegisteredWatched Phrase = "registered_watched"
	PhraseKeepsNone         Phrase = "keeps_no_beat"
	PhraseFirstAwaited      Phrase = "first_beat_awaited"
	PhraseBooted            Phrase = "booted"
	PhraseRegisteredAgain   Phrase = "registered_again"
	PhraseSilent            Phrase = "no_beat"
	PhraseStewardBeats      Phrase = "steward_beats"

	PhraseClock Phrase = "agent_clock" // the times that an agent writes are wrong
)

// The phrases of verdicts on capacity.
const (
	PhraseNothingRead Phrase = "nothing_read"
	PhraseHighest     Phrase = "highest"
	PhraseBehind      Phrase = "behind"
	PhraseOnePerRead  Phrase = "one_per_sample"
	PhraseUnreadable  Phrase = "dimension_unreadable"
	PhraseMustStay    Phrase = "must_stay"
	PhraseTooFull     Phrase = "too_full"
	PhraseMustFall    Phrase = "must_fall"
)

// The phrases of rulings on results.
const (
	PhraseNoResult       Phrase = "no_result"
	PhraseIsCompleted    Phrase = "is_completed"
	PhraseRetryCancelled Phrase = "retry_cancelled"
	PhraseEndedByUser    Phrase = "ended_by_user"
	PhraseOtherStatus    Phrase = "other_status"
	PhraseNotRetried     Phrase = "not_retried"
	PhraseNeverRetried   Phrase = "never_retried"
	PhraseBuried         Phrase = "buried"
	PhraseLastAttempt    Phrase = "last_attempt"
	PhraseMostAttempts   Phrase = "most_attempts"
	PhraseMostDeferrals  Phrase = "most_deferrals"
	PhraseScheduleStands Phrase = "schedule_stands"
	PhraseRetried        Phrase = "retried"
	PhrasePutOff         Phrase = "put_off"

	PhraseSealed      Phrase = "first_result_unreadable"
	PhraseFailedOld   Phrase = "failed_before_steward"
	PhraseRequestGone Phrase = "request_gone"
)

// The phrases of verdicts on locks.
const (
	PhraseLockKernel    Phrase = "lock_kernel"
	PhraseLockGone      Phrase = "lock_gone"
	PhraseLockAgentGone Phrase = "lock_agent_gone"
	PhraseLockOverdue   Phrase = "lock_overdue"
	PhraseLockProcess   Phrase = "lock_process"
	PhraseLockHeld      Phrase = "lock_held"
	PhraseLockLives     Phrase = "lock_holder_lives"
	PhraseLockSilent    Phrase = "lock_holder_silent"
	PhraseLockDue       Phrase = "lock_due" // the Base, and when the lock is released
	PhraseLockClock     Phrase = "lock_clock"
)
