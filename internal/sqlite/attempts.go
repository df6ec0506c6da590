package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatewayd/internal/problem"
)

// repairTries is how often the same damage is tried: what three repairs did not mend, a fourth only rewrites.
const repairTries = 3

// attempts is the ledger of the repairs of one state of a file that failed, in a file beside it.
type attempts struct {
	path  string
	print string
	entry attemptsEntry
}

type attemptsEntry struct {
	Fingerprint    string    `json:"fingerprint"` // size and content of both ends, without what a mere open changes
	FailedAttempts int       `json:"failed_attempts"`
	LastAttempt    time.Time `json:"last_attempt"`
}

func openAttempts(path string) (*attempts, error) {
	l := &attempts{path: path + ".repair-attempts.json"}
	var err error
	if l.print, err = damageFingerprint(path); err != nil {
		return nil, fmt.Errorf("read repair ledger: %w", err)
	}
	raw, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read repair ledger: %w", err)
	}
	if json.Unmarshal(raw, &l.entry) != nil || l.entry.Fingerprint != l.print { // unreadable, or of other damage
		l.entry = attemptsEntry{Fingerprint: l.print}
	}
	return l, nil
}

// mayTry refuses the fourth try.
func (l *attempts) mayTry(f *File) error {
	if l.entry.FailedAttempts < repairTries {
		return nil
	}
	return f.refuse(Corrupt, problem.Damaged, fmt.Sprintf("was tried to be repaired %d times without success", l.entry.FailedAttempts),
		PutBack+"; to try once more remove "+l.path, nil)
}

// failed counts a try that ended with damage. Trouble with locks or the disk says nothing about the file.
func (l *attempts) failed() error {
	l.entry.FailedAttempts++
	l.entry.LastAttempt = time.Now().UTC()
	fresh := l.path + partialMark
	if err := writeSynced(fresh, l.entry); err != nil {
		return fmt.Errorf("write repair ledger: %w", err)
	}
	return errors.Join(os.Rename(fresh, l.path), syncDir(filepath.Dir(l.path)))
}

func (l *attempts) clear() error {
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear repair ledger: %w", err)
	}
	return nil
}

const (
	fingerprintEnd = 64 << 10 // bytes of each end
	fingerprintHex = 32
)

// damageFingerprint is the file's size and a digest of its two ends. The change counter and the version beside it are
// masked: they change with every write, the damage does not.
func damageFingerprint(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	head := make([]byte, min(fingerprintEnd, info.Size()))
	if _, err := io.ReadFull(file, head); err != nil {
		return "", err
	}
	for _, at := range []int{24, 92} {
		if len(head) >= at+4 {
			clear(head[at : at+4])
		}
	}
	tail := io.NewSectionReader(file, max(0, info.Size()-fingerprintEnd), fingerprintEnd)
	if _, err := io.Copy(h, io.MultiReader(bytes.NewReader(head), tail)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%s", info.Size(), hex.EncodeToString(h.Sum(nil))[:fingerprintHex]), nil
}
