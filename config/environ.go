package config

import (
	"os"
	"slices"
	"strings"
)

// Environ is an environment as the process was given it: KEY=VALUE words.
type Environ []string

// OSEnviron reads the environment of this process. It is the only place in the tree that does.
func OSEnviron() []string { return os.Environ() }

// Lookup gives the value of key; of a key given twice the last one counts, as for a shell's child.
func (e Environ) Lookup(key string) (string, bool) {
	for _, word := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Get gives the value of key, or "".
func (e Environ) Get(key string) string {
	value, _ := e.Lookup(key)
	return value
}

// Allow gives KEY=VALUE for those of the names that are set, in the order of the names and once each. A
// worker's environment is built from it, so that nothing reaches a worker that nobody named.
func (e Environ) Allow(names ...string) []string {
	var words []string
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if value, ok := e.Lookup(name); ok {
			words = append(words, name+"="+value)
		}
	}
	return words
}
