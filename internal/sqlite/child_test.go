package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// The environment that turns the test binary into a writer process.
const (
	childPath = "GATEWAYD_TEST_SQLITE_PATH"
	childMode = "GATEWAYD_TEST_SQLITE_MODE"
	childName = "GATEWAYD_TEST_SQLITE_NAME"
)

// childMain writes rows from several goroutines and prints each uid once it is acknowledged, until it is killed.
func childMain() bool {
	path := os.Getenv(childPath)
	if path == "" {
		return false
	}
	f, err := Open(context.Background(), Options{
		Path: path, Journal: JournalConfig{Mode: os.Getenv(childMode)}, AutoCheckpoint: 100, TornCheck: true,
	})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				uid := fmt.Sprintf("%s-%d-%d", os.Getenv(childName), g, i)
				if err := f.Write(context.Background(), insert(uid)); err != nil {
					fmt.Println("write:", err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println(uid)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return true
}

// spawn starts writer processes, kills each with SIGKILL after it has acknowledged some rows, and gives all the
// uids that were printed.
func spawn(t *testing.T, path, mode string, rounds, procs int) []string {
	t.Helper()
	var mu sync.Mutex
	var acked []string
	var wg sync.WaitGroup
	for p := range procs {
		wg.Go(func() {
			for round := range rounds {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childPath+"="+path, childMode+"="+mode, fmt.Sprintf("%s=%d.%d", childName, p, round))
				pipe, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(pipe)
				for n := 0; lines.Scan(); n++ {
					mu.Lock()
					acked = append(acked, lines.Text())
					mu.Unlock()
					if n == 30+17*round {
						cmd.Process.Kill()
					}
				}
				if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
					t.Errorf("writer process ended by itself: %v", err)
				}
			}
		})
	}
	wg.Wait()
	return acked
}

func TestAKilledWriterKeepsEveryAcknowledgedRow(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			o := testOptions(t)
			o.Journal.Mode = mode
			f := mustOpen(t, o)
			acked := spawn(t, f.Path(), mode, 3, 3)
			stored := map[string]bool{}
			err := f.Read(t.Context(), func(c *Conn) error {
				for row, err := range c.Query("SELECT uid FROM rows") {
					if err != nil {
						return err
					}
					stored[row.Text(0)] = true
				}
				var verdict string
				if _, err := c.Row("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
					t.Errorf("integrity_check: %s, %v", verdict, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			lost := 0
			for _, uid := range acked {
				if !stored[uid] {
					lost++
					t.Errorf("acknowledged and gone: %s", uid)
				}
			}
			t.Logf("%d acknowledged, %d lost, %d stored", len(acked), lost, len(stored))
			mustWrite(t, f, insert("life goes on"))
		})
	}
}
