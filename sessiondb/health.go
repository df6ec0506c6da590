package sessiondb

import (
	"fmt"
	"path/filepath"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// State is what a store can do now.
type State string

// The states. A quarantined store is read, as far as its file can be; its new rows go to the spool.
const (
	StateOK          State = "ok"
	StateReadOnly    State = "read-only"
	StateQuarantined State = "quarantined"
)

// Health is how a store is, in the words that /health, status and doctor share.
type Health struct {
	Path     string         `json:"path"`
	State    State          `json:"state"`
	Reason   string         `json:"reason,omitempty"` // "newer schema", or the class of the damage: "corrupt", "replaced", "lost wal"
	Detail   string         `json:"detail,omitempty"` // the sentence for a person
	Remedy   string         `json:"remedy,omitempty"`
	Spool    SpoolState     `json:"spool"`
	Captures []CaptureState `json:"captures,omitempty"` // of write-ahead logs that were lost, newest first
}

// CaptureState is a captured generation beside the store.
type CaptureState struct {
	Dir      string    `json:"dir"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason,omitempty"`
	Bytes    int64     `json:"bytes"`
	Whole    bool      `json:"whole"`    // it has a copy of the database; without one nothing can be salvaged by a verb
	Salvaged bool      `json:"salvaged"` // its rows are in the store
}

// Writable says why the store takes no rows now; nil when it does. It reads flags and costs nothing. A quarantine and a
// newer schema are *problem.Error of the kinds Unavailable and Config.
func (s *Store) Writable() error {
	if err := s.readOnly; err != nil {
		return err
	}
	cause := s.file.Quarantine()
	if cause == nil {
		return nil
	}
	return &problem.Error{
		Kind: problem.Unavailable, Thing: "the store", What: "takes no new messages now: " + sentenceOf(cause),
		Fate: "nothing was stored, and what was stored before is kept", Remedy: remedyOf(cause), Err: said{cause},
	}
}

// ReadOnly reports that the file was written by a newer program and is only read.
func (s *Store) ReadOnly() bool { return s.readOnly != nil }

// Health looks at the flags of the store and at what lies beside its file. It reads no row, and works for a store that
// cannot be read any more.
func (s *Store) Health() Health {
	h := beside(s.file.Path(), s.spool)
	h.State = s.State()
	switch h.State {
	case StateReadOnly:
		h.Reason, h.Detail, h.Remedy = "newer schema", sentenceOf(s.readOnly), remedyOf(s.readOnly)
	case StateQuarantined:
		cause := s.file.Quarantine()
		h.Reason, h.Detail, h.Remedy = string(sqlite.ClassOf(cause)), sentenceOf(cause), remedyOf(cause)
	}
	return h
}

// State reads flags and costs nothing.
func (s *Store) State() State {
	switch {
	case s.ReadOnly():
		return StateReadOnly
	case s.file.Quarantine() != nil:
		return StateQuarantined
	}
	return StateOK
}

// Beside says what lies beside a database: its spool and its captures. For who cannot open the store.
func Beside(path string) Health { return beside(path, SpoolOf(path)) }

func beside(path string, spool *Spool) Health {
	h := Health{Path: path, State: StateOK}
	var err error
	if h.Spool, err = spool.State(); err != nil {
		h.Detail = "the spool cannot be read: " + err.Error()
	}
	captures, err := sqlite.Captures(path)
	if err != nil {
		h.Detail = "the captures cannot be listed: " + err.Error()
	}
	for _, c := range captures {
		h.Captures = append(h.Captures, CaptureState{
			Dir: c.Dir, At: c.Manifest.CapturedAt, Reason: string(c.Manifest.Reason), Bytes: c.Bytes(), Whole: c.Manifest.Main.Mode == sqlite.MainCopied, Salvaged: c.Salvaged(),
		})
	}
	return h
}

// Trouble is the one line about a store that is not as it should be, "" for one that is.
func (h Health) Trouble() string {
	switch {
	case h.State != StateOK:
		return h.Detail
	case h.Spool.Rows > 0:
		return fmt.Sprintf("%d rows wait in %s", h.Spool.Rows, h.Spool.Path)
	case h.Spool.Kept > 0:
		return fmt.Sprintf("%d spooled batches could not be stored, each with its reason in %s", h.Spool.Kept, filepath.Join(h.Spool.Path, spoolKept))
	}
	return h.Detail
}
