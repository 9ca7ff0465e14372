package escalate

import "time"

// Retry timing and limits.
const (
	retryFirst   = 30 * time.Second // doubles with each failure …
	retryMost    = 15 * time.Minute // … up to this
	withdrawMost = 3                // attempts to withdraw a popup
	remindMost   = 3                // attempts at a reminder that no channel delivers
)

// jobKey identifies a retry back-off. A newer notice of the same incident has its own key and does not wait for the
// back-off.
type jobKey struct {
	key string
	job jobKind
	rev int
}

func jobOf(i Incident) jobKey {
	k := jobKey{key: i.Key, job: i.job(), rev: i.Notice}
	if k.job == jobWithdraw {
		k.rev = 0 // failures to withdraw a popup count together, whatever its incident does meanwhile
	}
	return k
}

// retries are the jobs that failed.
type retries map[jobKey]retry

type retry struct {
	failed int
	again  time.Time
}

// after is when the job may be tried again; zero: now.
func (r retries) after(k jobKey) time.Time { return r[k].again }

// failed counts a failure, schedules the retry and returns the number of failures so far.
func (r retries) failed(k jobKey, now time.Time) int {
	n := r[k].failed + 1
	r[k] = retry{n, now.Add(backoff(n))}
	return n
}

// keep forgets all other jobs.
func (r retries) keep(owed map[jobKey]bool) {
	for k := range r {
		if !owed[k] {
			delete(r, k)
		}
	}
}

// backoff returns the delay after that many failures.
func backoff(failed int) time.Duration {
	wait := retryFirst
	for range failed - 1 {
		if wait = 2 * wait; wait >= retryMost {
			return retryMost
		}
	}
	return wait
}
