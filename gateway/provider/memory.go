package provider

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// memoryFile holds what the servers of a home taught us.
const memoryFile = "models.json"

// Memory keeps what was learned of servers over restarts, in a small file of the home. Several processes may write it: each writes the whole file under
// its name at once, and what is lost when two do so together is learned again. Safe for concurrent use.
type Memory struct {
	path string
	log  *slog.Logger
	mu   sync.Mutex
}

// NewMemory gives the memory of a home. Nothing is read or made before it is used. A nil log is none.
func NewMemory(home string, log *slog.Logger) *Memory {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Memory{path: filepath.Join(home, memoryFile), log: log}
}

// Of gives what is known of a model at a server. A file that is none holds nothing.
func (m *Memory) Of(baseURL, name string) Learned {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read()[memoryKey(baseURL, name)]
}

// Keep gives the function that remembers what is learned of a model at a server, for Options.Remember.
func (m *Memory) Keep(baseURL, name string) func(Learned) {
	return func(learned Learned) {
		m.mu.Lock()
		defer m.mu.Unlock()
		all := m.read()
		all[memoryKey(baseURL, name)] = learned
		if err := m.write(all); err != nil {
			m.log.Warn("what a model server taught is not kept", "path", m.path, "error", err)
		}
	}
}

func memoryKey(baseURL, name string) string {
	if base, err := parseBase(baseURL); err == nil {
		baseURL = publicURL(base)
	}
	return name + "@" + baseURL
}

func (m *Memory) read() map[string]Learned {
	all := map[string]Learned{}
	if text, err := os.ReadFile(m.path); err == nil && json.Unmarshal(text, &all) != nil {
		return map[string]Learned{}
	}
	return all
}

func (m *Memory) write(all map[string]Learned) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(m.path), "."+memoryFile+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(append(text, '\n'))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), m.path)
}
