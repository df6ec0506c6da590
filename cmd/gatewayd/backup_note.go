package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gatewayd/config"
)

// backupNote is what is known of the last rounds of backups, for those who look from outside: the doctor, and a daemon that starts.
// It lies in the home and not beside the copies, whose disk may be what is wrong.
type backupNote struct {
	GoodAt   time.Time `json:"good_at,omitzero"`   // the last round in which every database was copied
	FailedAt time.Time `json:"failed_at,omitzero"` // the last that failed; zero once one was good again
	Error    string    `json:"error,omitempty"`
}

func notePath(home string) string { return filepath.Join(home, "backup.json") }

// readBackupNote gives an empty one where there is none that can be read.
func readBackupNote(home string) (n backupNote) {
	if text, err := os.ReadFile(notePath(home)); err == nil {
		_ = json.Unmarshal(text, &n)
	}
	return n
}

// noteBackup remembers how a round went.
func noteBackup(home string, failed error) error {
	n := backupNote{GoodAt: time.Now().UTC()}
	if failed != nil {
		n = backupNote{GoodAt: readBackupNote(home).GoodAt, FailedAt: time.Now().UTC(), Error: failed.Error()}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return config.WriteWhole(notePath(home), string(text)+"\n")
}

// failedRound says why the last round of backups failed; "" where it did not.
func failedRound(cfg config.Config) string {
	n := readBackupNote(cfg.Home)
	if n.Error == "" {
		return ""
	}
	last := "none was good yet"
	if !n.GoodAt.IsZero() {
		last = "the last good one was at " + when(n.GoodAt)
	}
	return fmt.Sprintf("the round at %s failed, %s: %s", when(n.FailedAt), last, n.Error)
}

// nextRound is when the next round is due: at backup.at of the next day that has not had one, or so long after the last one, and not
// before a daemon that just started has done its other work.
func nextRound(now, last time.Time, every time.Duration, at string) time.Time {
	soonest := now.Add(firstBackup)
	clock, err := time.Parse("15:04", at)
	if err != nil {
		return later(soonest, last.Add(every))
	}
	due := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
	if due.After(now) {
		due = due.AddDate(0, 0, -1) // the last time that it should have been done
	}
	if last.Before(due) && !last.IsZero() {
		return soonest // it was missed: the machine was off
	}
	return due.AddDate(0, 0, 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// secretFiles are what a home on a new machine needs beside its rows and settings, and what nobody should find in a backup unasked.
var secretFiles = []string{".env", "api.key", "keys.json", "runs.secret"}

// homeFiles are the small files of the home that are copied along with state.db.
func homeFiles(cfg config.Config, secrets bool) (paths []string) {
	names := []string{"config.yaml"}
	if secrets {
		names = append(names, secretFiles...)
	}
	for _, name := range names {
		paths = append(paths, filepath.Join(cfg.Home, name))
	}
	if file := cfg.Model.APIKeyFile; secrets && filepath.Dir(file) == cfg.Home {
		paths = append(paths, file)
	}
	return paths
}

// besideHome is where they go back to, if nothing is there.
func besideHome(cfg config.Config, names []string) map[string]string {
	to := map[string]string{}
	for _, name := range names {
		to[name] = filepath.Join(cfg.Home, filepath.Base(name))
	}
	return to
}

// joined adds an error of the note to that of the round: neither may hide the other.
func joined(home string, failed error) error { return errors.Join(failed, noteBackup(home, failed)) }
