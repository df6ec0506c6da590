package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
)

// FileName is where a home keeps what is known of its keys.
const FileName = "keys.json"

const (
	bookVersion = 1
	bookMost    = 4 << 20
)

// book is keys.json.
type book struct {
	Version int     `json:"version"`
	TakenIn string  `json:"api_key_sha256,omitempty"` // of the api.key that became a key last: one that was removed does not come back by it
	Keys    []entry `json:"keys"`
	Logins  []login `json:"logins"`
}

type entry struct {
	Key
	Hash string `json:"sha256"`
	Weak bool   `json:"weak,omitempty"` // a person chose it
}

// login is what a browser has after a key was pasted once.
type login struct {
	Hash      string    `json:"sha256"`
	Key       string    `json:"key"` // the ID: a login dies with its key
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// readBook reads keys.json. A file that is not there is an empty book and no stamp.
func readBook(path string) (book, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return book{Version: bookVersion}, nil, nil
	}
	if err != nil {
		return book{}, nil, bookProblem(path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return book{}, nil, bookProblem(path, err)
	}
	text, err := io.ReadAll(io.LimitReader(file, bookMost))
	if err != nil {
		return book{}, nil, bookProblem(path, err)
	}
	b, err := parseBook(text)
	if err != nil {
		return book{}, info, bookProblem(path, err)
	}
	return b, info, nil
}

func parseBook(text []byte) (b book, err error) {
	if err := json.Unmarshal(text, &b); err != nil {
		return b, err
	}
	if b.Version != bookVersion {
		return b, fmt.Errorf("its version is %d and this program knows %d", b.Version, bookVersion)
	}
	return b, nil
}

func bookProblem(path string, err error) error {
	return &problem.Error{
		Kind: problem.Config, Thing: path, What: "cannot be used", Fate: "it was left as it is",
		Remedy: "mend it or move it away; without it the next start takes in api.key, or makes a new first key", Err: err,
	}
}

func (b book) write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return config.WriteWhole(path, string(text)+"\n")
}

// find gives the place of a key by its name or ID.
func (b *book) find(name string) int {
	return slices.IndexFunc(b.Keys, func(e entry) bool { return e.Name == name || e.ID == name })
}

// tidy drops logins that are over or whose key is gone.
func (b *book) tidy(now time.Time) {
	b.Logins = slices.DeleteFunc(b.Logins, func(l login) bool {
		at := b.find(l.Key)
		return at < 0 || !now.Before(l.ExpiresAt) || b.Keys[at].Expired(now)
	})
}

func bookPath(dir string) string { return filepath.Join(dir, FileName) }
