package main

import (
	"fmt"
	"time"
)

// backupStatus is how well the daemon's databases are kept elsewhere.
type backupStatus struct {
	Last   time.Time  `json:"last,omitzero"`    // when the newest copy of state.db was made; each was verified before it got its name
	Next   *time.Time `json:"next,omitempty"`   // when the next round is due; none is planned without it
	Failed string     `json:"failed,omitempty"` // why the last round failed
}

func (d *daemon) backupStatus() backupStatus {
	return backupStatus{Last: d.lastBackup(), Next: d.nextBackup.Load(), Failed: failedRound(d.config.Config)}
}

// backupWords are those of one line: a failure first, then the newest copy and its age, then when the next is due.
func backupWords(b backupStatus, now time.Time) string {
	words, next := "none yet", "none is planned, see backup.every"
	if !b.Last.IsZero() {
		words = fmt.Sprintf("verified %s, %s old", minute(b.Last), age(now.Sub(b.Last)))
	}
	if b.Next != nil {
		next = "next " + minute(*b.Next)
	}
	if b.Failed != "" {
		words = "FAILED; " + words
	}
	return words + "; " + next
}

// minute is when, for a line that has no room for seconds.
func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// age is a time span in the unit that a person would name.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "a moment"
	case d < time.Hour:
		return many(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return many(int(d/time.Hour), "hour")
	}
	return many(int(d/(24*time.Hour)), "day")
}
