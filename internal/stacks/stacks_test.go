package stacks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stuck is where a goroutine waits that the file must name.
func stuck(began chan<- struct{}, end <-chan struct{}) {
	close(began)
	<-end
}

func TestTheFileSaysWhereEachGoroutineIsAndTheOldestGo(t *testing.T) {
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); stuck(began, end) }()
	<-began
	dir, now := t.TempDir(), time.Unix(1e9, 0)
	var path string
	for i := range Keep + 3 {
		var err error
		if path, err = Write(dir, "a test asks", now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	close(end)
	<-ended
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "a test asks") || !strings.Contains(string(text), "stacks.stuck(") {
		t.Errorf("%v\n%s", err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != Keep {
		t.Errorf("%d files are kept, want %d", len(names), Keep)
	}
}
