//go:build !race

package reaper_test

import "testing"

func keeperExe(testing.TB) string { return "" }

func raceReports() []string { return nil }
