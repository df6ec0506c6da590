package e2e

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/chamber"
	"gatewayd/reaper"
)

var (
	whole       = flag.Bool("all", false, "play every episode of the torture chamber in both journal modes, each for a second (make whole)")
	chamberSeed = flag.Uint64("chamber-seed", chamber.DefaultSeed, "base of the torture chamber's seeds")
	chamberOnly = flag.String("chamber-episode", "", "run only this episode of the torture chamber")
)

func newChamber(t *testing.T, mode string) *chamber.Chamber {
	t.Helper()
	return newChamberIn(t, mode, t.TempDir())
}

func newChamberIn(t *testing.T, mode, dir string) *chamber.Chamber {
	t.Helper()
	c, err := chamber.New(chamber.Options{
		Dir: dir, Mode: mode, Program: programIn(t, mode), Env: homeEnv(dir),
		Start: startRole, Seed: *chamberSeed, Length: episodeLength(), Say: t.Logf,
		Replay: "go test ./e2e -run '" + t.Name() + "' -args -chamber-episode %s -chamber-seed %d",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// episodeLength is short in the default run: what an episode has to see it waits for, and the length only adds load.
func episodeLength() time.Duration {
	if *whole {
		return time.Second
	}
	return 200 * time.Millisecond
}

// leftOut are the episodes that the default run plays in WAL alone: in rollback mode kill_all has the same strangers.
var leftOut = []string{"strangers"}

// plays says whether this run has an episode. A whole run, and one of an episode by its name, has them all.
func plays(e chamber.Episode, mode string) bool {
	return e.In(mode) && (all() || mode != chamber.Delete || !slices.Contains(leftOut, e.Name))
}

func all() bool { return *whole || *chamberOnly != "" }

// shared gives the episodes of one mode. In the default run strangers play in one of each mode, because they wait long
// for a lock among many: in WAL kill_all has none.
func shared(mode string) (out []chamber.Episode) {
	for _, e := range chamber.Shared() {
		if e.Name == "kill_all" && mode == chamber.WAL && !all() {
			e.Cast = slices.DeleteFunc(slices.Clone(e.Cast), func(p chamber.Part) bool { return strings.HasPrefix(p.Role, "py-") })
		}
		if plays(e, mode) {
			out = append(out, e)
		}
	}
	return out
}

func programIn(t *testing.T, mode string) string {
	t.Helper()
	if mode != chamber.Delete {
		return program
	}
	return pinnedProgram(t)
}

func startRole(argv, env []string, dir string, out, errs io.Writer) (chamber.Process, error) {
	child, err := reaper.StartChild(argv, env, dir, out, errs)
	if err != nil {
		return nil, err
	}
	return child, nil
}

// runEpisode plays one episode and fails the test with everything that was found.
func runEpisode(t *testing.T, c *chamber.Chamber, e chamber.Episode) {
	t.Helper()
	if *chamberOnly != "" && *chamberOnly != e.Name {
		return
	}
	r := c.Run(t.Context(), e)
	t.Logf("%-26s seed %d  %5.1f s  %s", r.Label, r.Seed, r.Took.Seconds(), r.Tallies)
	for _, what := range r.Skipped {
		t.Logf("SKIPPED: %s", what)
	}
	for _, what := range r.Failures {
		t.Errorf("%s: %s", r.Label, what)
	}
}

// The episodes after which the store is sound, one after the other on one store, with a reader that lives through them
// all.
func TestChamber(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{chamber.WAL, chamber.Delete} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newChamber(t, mode)
			for _, e := range shared(mode) {
				runEpisode(t, c, e)
			}
		})
	}
}

// The locks hold between processes, and a stray open and close of the files in the holder's own process does not cancel
// them: everything else here rests on that.
func TestChamberLocksHoldBetweenProcesses(t *testing.T) {
	t.Parallel()
	place, err := newChamber(t, chamber.WAL).Look(t.Context())
	if err != nil || len(place.Findings) > 0 || place.Mode != chamber.WAL {
		t.Errorf("%+v, %v", place, err)
	}
}
