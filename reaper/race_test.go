//go:build race

package reaper_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// raceDir is made at first use: every keeper starts this binary too.
var raceDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "keeper-race-")
	if err != nil {
		panic(err)
	}
	return dir
})

// keeperExe runs keepers so that what the race detector finds in them is not lost with their stderr.
func keeperExe(t testing.TB) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "keeper.sh")
	text := "#!/bin/sh\nGORACE=log_path=" + raceDir() + "/race exec " + exe + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// raceReports gives what was found in any keeper.
func raceReports() []string {
	files, _ := filepath.Glob(raceDir() + "/race.*")
	var reports []string
	for _, file := range files {
		data, _ := os.ReadFile(file)
		reports = append(reports, "in a keeper: "+string(data))
	}
	os.RemoveAll(raceDir())
	return reports
}
