package e2e

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/chamber"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak works, such as 60m; it is skipped without")

// gauge is something that must not grow with time.
type gauge struct {
	name string
	read func(metrics map[string]float64) float64
	most float64 // per hour in the second half, above which something leaks
}

// gauges are read from the daemon's own metrics.
var gauges = []gauge{
	{"memory, MiB", func(m map[string]float64) float64 { return m["process_resident_memory_bytes"] / (1 << 20) }, 24},
	{"descriptors", func(m map[string]float64) float64 { return m["process_open_fds"] }, 8},
	{"goroutines", func(m map[string]float64) float64 { return m["go_goroutines"] }, 8},
}

// weigh prints the slopes and fails over one that is too steep, if there was time enough to tell.
func weigh(t *testing.T, gauges []gauge, own []*series) {
	t.Helper()
	for i, g := range gauges {
		slope := own[i].slope()
		t.Logf("daemon  %-14s %s", g.name, own[i])
		if slope > g.most && *soakFor >= 10*time.Minute {
			t.Errorf("%s of the daemon grow by %.1f an hour", g.name, slope)
		}
	}
}

// A daemon under load for an hour, and the roles of the chamber beside it on a store of theirs: memory, descriptors and
// goroutines stay where they are. The slopes are printed.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("only with -args -soak 60m (make soak)")
	}
	d := start(t, newHome(t, allowTerminal))
	c := newChamber(t, chamber.WAL)
	c.Length = *soakFor
	played := make(chan chamber.Result, 1)
	go func() { played <- c.Run(t.Context(), chamber.Shared()[0]) }()
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range 3 {
		load.Go(func() { d.load(t, fmt.Sprintf("soak-%d", i), stop) })
	}
	daemon, roles := d.watch(t, c.Dir, gauges)
	close(stop)
	load.Wait()
	weigh(t, gauges, daemon)
	for name, s := range roles {
		t.Logf("role %-24s %s", name, s)
	}
	r := <-played
	t.Logf("%s %s", r.Label, r.Tallies)
	for _, what := range r.Failures {
		t.Error(what)
	}
	d.stop()
}

// load speaks to the daemon in one conversation after the other.
func (d *daemon) load(t *testing.T, name string, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if err := d.say(fmt.Sprintf("%s-%d", name, i/50), "$ echo turn "+strconv.Itoa(i), nil); err != nil {
			t.Errorf("turn %d: %v", i, err)
			return
		}
	}
}

// series is one number over time.
type series struct{ at, value []float64 } // hours since the start

func (s *series) add(since time.Time, value float64) {
	s.at, s.value = append(s.at, time.Since(since).Hours()), append(s.value, value)
}

// slope is the growth per hour over the second half, by least squares through the lowest of each twenty samples: the first half warms up,
// and what comes and goes with the load only lies above the floor, which a leak raises.
func (s *series) slope() float64 {
	var n, x, y, xx, xy float64
	for i := len(s.at) / 2; i < len(s.at); i += floorOf {
		end := min(i+floorOf, len(s.at))
		low := i + lowest(s.value[i:end])
		n, x, y, xx, xy = n+1, x+s.at[low], y+s.value[low], xx+s.at[low]*s.at[low], xy+s.at[low]*s.value[low]
	}
	if d := n*xx - x*x; d != 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// floorOf is how many samples have one floor.
const floorOf = 20

func lowest(values []float64) (at int) {
	for i, v := range values {
		if v < values[at] {
			at = i
		}
	}
	return at
}

func (s *series) String() string {
	if len(s.value) == 0 {
		return "never seen"
	}
	half := s.value[len(s.value)/2]
	return fmt.Sprintf("%8.1f at first, %8.1f at half time, %8.1f at last, %+.1f an hour", s.value[0], half, s.value[len(s.value)-1], s.slope())
}

// watch takes samples until the time is over: the daemon's own metrics, and the memory and descriptors of the roles.
func (d *daemon) watch(t *testing.T, dir string, gauges []gauge) (own []*series, roles map[string]*series) {
	began := time.Now()
	for range gauges {
		own = append(own, &series{})
	}
	roles = map[string]*series{}
	tick := time.NewTicker(max(*soakFor/200, time.Second))
	defer tick.Stop()
	end := time.After(*soakFor)
	for {
		select {
		case <-end:
			return own, roles
		case <-d.child.Done():
			t.Error("the daemon ended")
			return own, roles
		case <-tick.C:
			metrics := d.metrics(t)
			for i, g := range gauges {
				own[i].add(began, g.read(metrics))
			}
			if dir != "" {
				sampleRoles(dir, began, roles)
			}
		}
	}
}

func (d *daemon) metrics(t *testing.T) map[string]float64 {
	resp, err := d.send(http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] = value
		}
	}
	return out
}

// sampleRoles finds the chamber's processes by their command line.
func sampleRoles(dir string, began time.Time, into map[string]*series) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		raw, _ := os.ReadFile(path)
		words := strings.Split(string(raw), "\x00")
		if len(words) < 5 || words[2] != "role" || !strings.Contains(words[4], dir) {
			continue
		}
		fds, _ := os.ReadDir(filepath.Join(filepath.Dir(path), "fd"))
		var pages, resident float64
		statm, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "statm"))
		_, _ = fmt.Sscan(string(statm), &pages, &resident)
		for what, value := range map[string]float64{" memory, MiB": resident * float64(os.Getpagesize()) / (1 << 20), " descriptors": float64(len(fds))} {
			if into[words[3]+what] == nil {
				into[words[3]+what] = &series{}
			}
			into[words[3]+what].add(began, value)
		}
	}
}
