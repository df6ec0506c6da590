package steps

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const childVar = "STEPS_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child makes a file in four steps, and stops before the third.
func child(dir string) {
	stop, err := BeforeCall(3, func(call string) { fmt.Println(call) })
	if err != nil {
		fmt.Println("error", err)
		os.Exit(0)
	}
	stop.Arm()
	file, err := os.Create(filepath.Join(dir, "new"))
	if err == nil {
		_, err = file.WriteString("text")
		_ = file.Sync()
	}
	fmt.Println("went on:", err, os.Rename(file.Name(), filepath.Join(dir, "old")))
	os.Exit(0)
}

// The process stands before the call: what came before is done, it and what comes after are not.
func TestAProcessStopsBeforeTheCallThatWasChosen(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	lines.Scan()
	if lines.Text() != "rename new" {
		t.Fatalf("stopped before %q", lines.Text())
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new")); string(text) != "text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
