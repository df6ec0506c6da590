//go:build !race

package sessiondb

const raceEnabled = false
