//go:build race

package sessiondb

const raceEnabled = true
