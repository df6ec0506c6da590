package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/internal/problem"
)

const keyName = "api.key"

// APIKey gives the key of the held home and makes one where there is none (0600, whole or not at all).
func (h *HomeLock) APIKey() (key Secret, created bool, err error) {
	key, err = ReadAPIKey(h.dir)
	if !problem.Is(err, problem.NotFound) {
		h.WarnOpenKey()
		return key, false, err
	}
	text := rand.Text()
	if err := WriteWhole(filepath.Join(h.dir, keyName), text+"\n"); err != nil {
		return Secret{}, false, homeProblem(h.dir, err)
	}
	return NewSecret(text), true, nil
}

// WarnOpenKey adds a warning where other users may read the key.
func (h *HomeLock) WarnOpenKey() {
	path := filepath.Join(h.dir, keyName)
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%s is open to other users (mode %04o): `chmod 600 %s` closes it", path, info.Mode().Perm(), path))
	}
}

// APIKeyPath is where a home keeps the text of its first key for people and programs to copy.
func APIKeyPath(dir string) string { return filepath.Join(dir, keyName) }

// ReadAPIKey reads the key of a home for a caller of its API. A missing one is a problem of kind NotFound.
func ReadAPIKey(dir string) (Secret, error) {
	path := filepath.Join(dir, keyName)
	text, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Secret{}, &problem.Error{
			Kind: problem.NotFound, Thing: path, What: "does not exist", Remedy: "start `gatewayd` once: it makes one", Err: err,
		}
	}
	key := strings.TrimSpace(string(text))
	if err == nil && (key == "" || strings.ContainsAny(key, " \t\r\n")) {
		err = errors.New("it must hold one word")
	}
	if err != nil {
		return Secret{}, &problem.Error{
			Kind: problem.Config, Thing: path, What: "is not a usable key", Fate: "it was left as it is",
			Remedy: "write one word into it, or move it away and a new key is made at the next start", Err: err,
		}
	}
	return NewSecret(key), nil
}

// WriteWhole writes a private file (0600) that is under its name only when all of it is on disk: whoever reads sees the old one or the new.
func WriteWhole(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
