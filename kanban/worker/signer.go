package worker

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
)

// signerName is where a home keeps what its runs' tokens are signed with. It is a secret of its own: API keys come and go, and a worker
// outlives a restart.
const signerName = "runs.secret"

type signerFile struct {
	Key   []byte `json:"key"`
	Old   []byte `json:"old,omitempty"`
	Until int64  `json:"old_until,omitempty"`
}

// KeepSigner gives the signer of a held home and makes its secret where there is none. A home that has signed with its API key until now, which
// is before, goes on to accept what it signed: for runs that began by now, and for no others, because that key may have been seen.
func KeepSigner(home, before string) (Signer, error) {
	path := filepath.Join(home, signerName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newSigner(path, before)
	}
	var f signerFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && len(f.Key) < signerKey {
		err = errors.New("its key is too short")
	}
	if err != nil {
		return Signer{}, &problem.Error{
			Kind: problem.Config, Thing: path, What: "cannot be used", Fate: "it was left as it is",
			Remedy: "move it away: a new one is made, and workers that run now are refused at /mcp", Err: err,
		}
	}
	return Signer{key: f.Key, old: f.Old, until: f.Until}, nil
}

const signerKey = 32 // bytes, as many as the hash gives

func newSigner(path, before string) (Signer, error) {
	f := signerFile{Key: make([]byte, signerKey)}
	_, _ = rand.Read(f.Key) // it never fails
	if old := NewSigner(before).key; old != nil {
		f.Old, f.Until = old, time.Now().Unix()
	}
	text, err := json.Marshal(f)
	if err == nil {
		err = config.WriteWhole(path, string(text)+"\n")
	}
	if err != nil {
		return Signer{}, &problem.Error{Kind: problem.Unavailable, Thing: path, What: "cannot be written", Remedy: "see that the home is writable and has space", Err: err}
	}
	return Signer{key: f.Key, old: f.Old, until: f.Until}, nil
}
