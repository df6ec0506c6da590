package kanban

import (
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/procfs"
)

// mayEnd decides who may put an end to a card. A caller that names a run must name the current one. A caller that names
// none is a person, or a program that lost its name, and must not complete a card under a live worker's feet.
func (t *txn) mayEnd(card Task, run *RunID, force bool, now time.Time) error {
	switch {
	case run != nil && (card.Status != StatusRunning || *run == 0 || *run != card.CurrentRunID):
		return staleRun(card.ID, *run, card)
	case run == nil && !force && card.Status == StatusRunning && workerLives(card, now):
		return conflict(card.ID, ErrLiveClaim, "is being worked on (run %d, %s)", card.CurrentRunID, card.ClaimLock)
	}
	return nil
}

// workerLives reports whether the card's worker must be taken for alive. On another machine only the claim tells. A card
// that was claimed by hand has no worker.
func workerLives(card Task, now time.Time) bool {
	switch {
	case card.WorkerPID == 0:
		return false
	case !HostLocal(card.ClaimLock):
		return card.ClaimExpires > now.Unix()
	}
	st, err := procfs.ReadStat(card.WorkerPID)
	if err != nil || st.State == 'Z' || st.State == 'X' {
		return false
	}
	if start, err := strconv.ParseUint(card.WorkerStarted, 10, 64); err == nil {
		return start == st.Start
	}
	return !strings.Contains(card.WorkerStarted, "|") || procfs.Fingerprint(card.WorkerPID) == card.WorkerStarted
}
