package kanban

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// wholeNote says that a board's file, exactly as it lay there, was read through and found whole. The check at open reads
// the whole file: for 100 boards of 1,000 cards it took as long again as everything else that a start does. So it is done
// once for a content, and a start pays for the boards that were written since. It goes by sizes and times of the file and
// its -wal, which no writer leaves as they were; a disk that rots leaves them, and the checks of backups find that.
type wholeNote struct {
	path  string // of the note; "" = none is kept
	print string
}

// noteOf takes the fingerprint before anything of the board is opened: what is written from then on makes the note stale.
func noteOf(opts Options) wholeNote {
	if opts.Whole == "" {
		return wholeNote{}
	}
	sum := sha256.Sum256([]byte(opts.Path))
	return wholeNote{
		path:  filepath.Join(opts.Whole, string(opts.Slug)+"-"+hex.EncodeToString(sum[:8])),
		print: fmt.Sprintf("%s\n%+v\n", opts.Path, sqlite.TakeFingerprint(opts.Path)),
	}
}

func (n wholeNote) holds() bool {
	if n.path == "" {
		return false
	}
	said, err := os.ReadFile(n.path)
	return err == nil && (string(said) == n.print || mutation.On("found-whole-is-believed-of-another-content"))
}

// keep writes the note. One that cannot be kept, or is cut short by a power cut, costs the next start a check.
func (n wholeNote) keep() {
	if n.path == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(n.path), 0o700); err != nil {
		return
	}
	_ = os.WriteFile(n.path, []byte(n.print), 0o600)
}
