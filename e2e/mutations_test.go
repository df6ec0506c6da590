//go:build mutate

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/mutation"
)

// mutationLimit is far above what any of the tests takes; a mutation may make one hang.
const mutationLimit = 3 * time.Minute

// Of what is tried most of the time goes into waiting for what no longer comes; builds work for all of theirs.
const (
	mutantsAtOnce = 4
	buildsAtOnce  = 2
)

// Every guard of the list is left out once, in a process of its own, and the test beside it must notice. A mutation
// that nothing notices is a guard that nobody proved.
func TestMutations(t *testing.T) {
	if len(mutation.List) == 0 {
		t.Fatal("the list is empty")
	}
	w := newWorkshop(t.TempDir())
	abreast(t, make(chan struct{}, mutantsAtOnce), mutation.List, func(m mutation.Mutation) string { return m.Name }, w.tries)
}

// workshop builds the tests of each package once, and finds out once whether a test passes with every guard in place:
// both when they are first asked for, so that nobody waits for what he does not need.
type workshop struct {
	binaries map[string]func() (string, error) // by package
	sound    map[string]func() error           // by package and test
}

func newWorkshop(dir string) *workshop {
	w := &workshop{binaries: map[string]func() (string, error){}, sound: map[string]func() error{}}
	places := make(chan struct{}, buildsAtOnce)
	for _, m := range mutation.List {
		if w.binaries[m.Package] == nil {
			w.binaries[m.Package] = sync.OnceValues(func() (string, error) {
				places <- struct{}{}
				defer func() { <-places }()
				return mutableTests(dir, m.Package)
			})
		}
		if at := m.Package + " " + m.Test; w.sound[at] == nil {
			w.sound[at] = sync.OnceValue(func() error { return w.passes(m) })
		}
	}
	return w
}

// tries leaves one guard out.
func (w *workshop) tries(t *testing.T, m mutation.Mutation) {
	switch err := w.sound[m.Package+" "+m.Test](); {
	case errors.Is(err, errSkipped):
		t.Skipf("SKIPPED: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	out, err := w.run(m, m.Name)
	switch {
	case err == nil:
		t.Fatalf("%s passes although %s is in force", m.Test, m.Name)
	case !strings.Contains(out, "--- FAIL: "+m.Test):
		t.Fatalf("%s did not fail, it broke off: %v\n%s", m.Test, err, out)
	}
}

// errSkipped is of a test that needs what this machine does not have: it proves nothing here, and says so.
var errSkipped = errors.New("the test beside it is skipped here")

// passes runs a test with every guard in place.
func (w *workshop) passes(m mutation.Mutation) error {
	out, err := w.run(m, "")
	if err == nil && strings.Contains(out, "--- SKIP: "+m.Test) {
		return fmt.Errorf("%s: %w", m.Test, errSkipped)
	}
	if err != nil || !strings.Contains(out, "--- PASS: "+m.Test) {
		return fmt.Errorf("%s does not pass without a mutation: %v\n%s", m.Test, err, out)
	}
	return nil
}

// mutableTests builds the tests of a package.
func mutableTests(dir, pkg string) (string, error) {
	binary := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	build := exec.Command("go", "test", "-c", "-tags", "mutate", "-ldflags", "-s -w", "-o", binary, "./"+pkg)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

func (w *workshop) run(m mutation.Mutation, name string) (string, error) {
	binary, err := w.binaries[m.Package]()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mutationLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.count=1", "-test.run", "^"+m.Test+"$")
	cmd.Dir = filepath.Join("..", m.Package)
	cmd.Env = append(os.Environ(), mutation.Variable+"="+name, programEnv+"="+program)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
