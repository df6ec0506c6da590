//go:build !race

package kanban

const raceEnabled = false
