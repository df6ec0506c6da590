package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAnArchiveDoesNotDependOnTheMachine(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	var archives [2]bytes.Buffer
	for i, files := range [][]string{{"a/page", "b", "run"}, {"run", "b", "a/page"}} {
		dir := filepath.Join(t.TempDir(), "release")
		for _, name := range files {
			file, mode := filepath.Join(dir, name), os.FileMode(0o600)
			if name == "run" {
				mode = 0o700
			}
			need(t, os.MkdirAll(filepath.Dir(file), 0o755))
			need(t, os.WriteFile(file, []byte(name), mode|os.FileMode(i*0o044))) // other modes, other owners' rights
			need(t, os.Chtimes(file, at.AddDate(i, 0, 0), at.AddDate(i, 0, 0)))
		}
		need(t, pack(&archives[i], dir, at))
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("the same files, made in another order, at another time and for others, make another archive")
	}
}

func TestAProgramThatWantsALibraryIsRefused(t *testing.T) {
	for _, program := range []string{"/bin/sh", "/usr/bin/env", "/usr/bin/ls"} {
		if _, err := os.Stat(program); err != nil {
			continue
		}
		if err := static(program); err == nil || !strings.Contains(err.Error(), "not static") {
			t.Errorf("%s: %v", program, err)
		}
		return
	}
	t.Skip("SKIPPED: no program with an interpreter is here")
}

func need(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
