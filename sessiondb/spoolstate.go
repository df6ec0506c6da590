package sessiondb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// SpoolState says what lies in a spool.
type SpoolState struct {
	Path  string     `json:"path"`
	Rows  int        `json:"rows"`  // that wait for the store
	Kept  int        `json:"kept"`  // lines that could not be replayed, with their reason
	Bytes int64      `json:"bytes"` // of all files
	Since *time.Time `json:"since,omitempty"`
}

// State counts what is in the spool, by reading it where it is not as it was at the last look.
func (sp *Spool) State() (SpoolState, error) {
	files, err := sp.list()
	if err != nil {
		return SpoolState{Path: sp.dir}, fmt.Errorf("look into spool: %w", err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if seen := fmt.Sprint(files); seen != sp.files || sp.state.Path == "" {
		out, err := sp.count(files)
		if err != nil {
			return out, err
		}
		sp.files, sp.state = seen, out
	}
	return sp.state, nil
}

func (sp *Spool) count(files []spoolFile) (SpoolState, error) {
	out := SpoolState{Path: sp.dir}
	for _, f := range files {
		out.Bytes += f.bytes
		err := sp.each(f.name, func(r *spooled) error {
			switch {
			case f.name == spoolKept:
				out.Kept++
				return nil
			case len(r.Raw) > 0:
				out.Rows++
			default:
				out.Rows += len(r.Rows)
			}
			if at := r.At; !at.IsZero() && (out.Since == nil || at.Before(*out.Since)) {
				out.Since = &at
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
	}
	return out, nil
}

func (sp *Spool) each(name string, do func(*spooled) error) error {
	file, err := os.Open(sp.file(name))
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	defer file.Close()
	return eachSpooled(file, do)
}
