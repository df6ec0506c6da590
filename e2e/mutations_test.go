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

// Every guard of the list is left out once, in a process of its own, and the test beside it must notice. A mutation
// that nothing notices is a guard that nobody proved. Most of the time is spent waiting for what no longer comes, so
// some run at once.
func TestMutations(t *testing.T) {
	if len(mutation.List) == 0 {
		t.Fatal("the list is empty")
	}
	dir := t.TempDir()
	sound := map[string]func() error{}
	for _, m := range mutation.List {
		binary := mutableTests(t, dir, m.Package)
		if at := m.Package + " " + m.Test; sound[at] == nil {
			sound[at] = sync.OnceValue(func() error { return passes(binary, m) })
		}
	}
	for _, m := range mutation.List {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			switch err := sound[m.Package+" "+m.Test](); {
			case errors.Is(err, errSkipped):
				t.Skipf("SKIPPED: %v", err)
			case err != nil:
				t.Fatal(err)
			}
			out, err := runMutated(mutableTests(t, dir, m.Package), m, m.Name)
			switch {
			case err == nil:
				t.Fatalf("%s passes although %s is in force", m.Test, m.Name)
			case !strings.Contains(out, "--- FAIL: "+m.Test):
				t.Fatalf("%s did not fail, it broke off: %v\n%s", m.Test, err, out)
			}
		})
	}
}

// errSkipped is of a test that needs what this machine does not have: it proves nothing here, and says so.
var errSkipped = errors.New("the test beside it is skipped here")

// passes runs a test with every guard in place.
func passes(binary string, m mutation.Mutation) error {
	out, err := runMutated(binary, m, "")
	if err == nil && strings.Contains(out, "--- SKIP: "+m.Test) {
		return fmt.Errorf("%s: %w", m.Test, errSkipped)
	}
	if err != nil || !strings.Contains(out, "--- PASS: "+m.Test) {
		return fmt.Errorf("%s does not pass without a mutation: %v\n%s", m.Test, err, out)
	}
	return nil
}

// mutableTests builds the tests of a package once.
func mutableTests(t *testing.T, dir, pkg string) string {
	t.Helper()
	binary := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	build := exec.Command("go", "test", "-c", "-tags", "mutate", "-o", binary, "./"+pkg)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s: %v\n%s", pkg, err, out)
	}
	return binary
}

func runMutated(binary string, m mutation.Mutation, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), mutationLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.count=1", "-test.run", "^"+m.Test+"$")
	cmd.Dir = filepath.Join("..", m.Package)
	cmd.Env = append(os.Environ(), "GATEWAYD_MUTATION="+name)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
