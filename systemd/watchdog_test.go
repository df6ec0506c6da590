package systemd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// kennel is a watchdog on a faked clock whose messages are counted.
type kennel struct {
	*Watchdog
	mu   sync.Mutex
	told []string
	log  bytes.Buffer
}

func (k *kennel) hear(state string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, state)
	return nil
}

// heard gives what was told since it was asked last.
func (k *kennel) heard() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	told := k.told
	k.told = nil
	return told
}

// inKennel runs f beside a watchdog that is asked for a sign every 30 s and looks every 10 s.
func inKennel(t *testing.T, f func(t *testing.T, k *kennel)) {
	synctest.Test(t, func(t *testing.T) {
		k := &kennel{}
		n := &Notifier{send: k.hear}
		k.Watchdog = &Watchdog{notify: n, log: slog.New(slog.NewTextHandler(&k.log, nil)), interval: 30 * time.Second, fed: true}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = k.Run(ctx) }()
		f(t, k)
		stop()
		<-done
	})
}

// fedIn counts the feedings in a stretch of faked time, and gives what else was told.
func (k *kennel) fedIn(d time.Duration) (fed int, others []string) {
	synctest.Wait()
	k.heard()
	<-time.After(d)
	synctest.Wait()
	for _, message := range k.heard() {
		if message == "WATCHDOG=1" {
			fed++
			continue
		}
		others = append(others, message)
	}
	return fed, others
}

// beating keeps a pulse alive until stop.
func beating(p *Pulse, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticker := time.NewTicker(every); ; {
			select {
			case <-ticker.C:
				p.Beat()
			case <-ctx.Done():
				ticker.Stop()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func TestItIsFedOnlyWhileEveryActorBeats(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		stopA := beating(k.Pulse("dispatcher", 20*time.Second), 5*time.Second)
		b := k.Pulse("api", 20*time.Second)
		stopB := beating(b, 5*time.Second)
		if fed, _ := k.fedIn(time.Minute); fed != 6 {
			t.Errorf("fed %d times in a minute of life, want 6", fed)
		}
		stopB()
		k.fedIn(30 * time.Second)
		if fed, _ := k.fedIn(time.Minute); fed != 0 {
			t.Errorf("fed %d times although one of two actors is silent", fed)
		}
		if silent := k.Silent(); !slices.Equal(silent, []string{"api"}) {
			t.Errorf("silent: %q", silent)
		}
		stopB = beating(b, 5*time.Second)
		k.fedIn(10 * time.Second)
		if fed, _ := k.fedIn(time.Minute); fed != 6 {
			t.Errorf("fed %d times after it came back", fed)
		}
		stopA()
		stopB()
	})
}

func TestSilenceIsSaidOnceWhenItStartsAndWhenItEnds(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		p := k.Pulse("api", 20*time.Second)
		_, others := k.fedIn(5 * time.Minute)
		if !slices.Equal(others, []string{"STATUS=no sign of life from api"}) {
			t.Errorf("told %q", others)
		}
		p.Beat()
		k.fedIn(10 * time.Second)
		text := k.log.String()
		if strings.Count(text, "actor is silent") != 1 || strings.Count(text, "actor is back") != 1 || !strings.Contains(text, "actor=api") {
			t.Errorf("log:\n%s", text)
		}
	})
}

func TestAnActorThatDoesNotComeBackIsGivenUpOnce(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		given := make(chan []string, 8)
		k.OnWedged(func(silent []string) { given <- silent })
		k.fed = false
		p := k.Pulse("api", 20*time.Second)
		k.fedIn(60 * time.Second)
		p.Beat()
		if k.fedIn(time.Minute); len(given) != 0 {
			t.Errorf("given up although it came back: %v", <-given)
		}
		if k.fedIn(10 * time.Minute); len(given) != 1 {
			t.Fatalf("given up %d times", len(given))
		}
		if silent := <-given; !slices.Equal(silent, []string{"api"}) {
			t.Errorf("given up: %v", silent)
		}
	})
}

// A service manager that waits to be fed kills when it was not for as long as it asked. Whoever asks often hears soon of a part that hangs, and the
// daemon has ended itself before it is killed.
func TestAPartThatHangsIsGivenUpBeforeTheServiceManagerKills(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		given := make(chan time.Time, 1)
		k.OnWedged(func([]string) { given <- time.Now() })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			k.Probe(ctx, "api", time.Hour, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}()
		k.fedIn(2 * k.interval)
		if len(given) == 0 {
			t.Fatalf("not given up although nothing was heard for %v", 2*k.interval)
		}
		fedLast := began.Add(k.interval) // the look that finds the silence is no later than one look after it
		if after := (<-given).Sub(fedLast); after >= k.interval {
			t.Errorf("given up %v after it was fed last, when it would have been killed", after)
		}
		stop()
		<-ended
	})
}

// stuck is a log whose reader has gone to sleep.
type stuck struct{ woken chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.woken; return len(p), nil }

func TestALogThatBlocksKeepsNobodyFromBeingGivenUp(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		reader := stuck{make(chan struct{})}
		k.Watchdog.log = slog.New(slog.NewTextHandler(reader, nil))
		given := make(chan []string, 1)
		k.OnWedged(func(silent []string) { given <- silent })
		k.Pulse("api", 20*time.Second)
		if k.fedIn(time.Minute); len(given) != 1 {
			t.Error("not given up")
		}
		close(reader.woken)
	})
}

func TestAnActorThatEndedInOrderIsNotWaitedFor(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		p := k.Pulse("dispatcher", 20*time.Second)
		p.End()
		if fed, _ := k.fedIn(5 * time.Minute); fed != 30 {
			t.Errorf("fed %d times in five minutes of drain, want 30", fed)
		}
	})
}

func TestAProbeThatHangsOrFailsIsSilence(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var fail, hang atomic.Bool
		go func() {
			defer close(ended)
			k.Probe(ctx, "registry", 15*time.Second, func(ctx context.Context) error {
				if hang.Load() {
					<-ctx.Done()
				}
				if fail.Load() {
					return errors.New("no")
				}
				return nil
			})
		}()
		if fed, _ := k.fedIn(time.Minute); fed != 6 {
			t.Errorf("fed %d times with good answers", fed)
		}
		fail.Store(true)
		k.fedIn(30 * time.Second)
		if fed, _ := k.fedIn(time.Minute); fed != 0 {
			t.Errorf("fed %d times with bad answers", fed)
		}
		fail.Store(false)
		k.fedIn(30 * time.Second)
		if fed, _ := k.fedIn(time.Minute); fed != 6 {
			t.Errorf("fed %d times after good answers again", fed)
		}
		hang.Store(true)
		k.fedIn(30 * time.Second)
		if fed, _ := k.fedIn(time.Minute); fed != 0 {
			t.Errorf("fed %d times while the probe hangs", fed)
		}
		stop()
		<-ended
		if fed, _ := k.fedIn(time.Minute); fed != 6 {
			t.Errorf("fed %d times after the probe was taken out", fed)
		}
	})
}

func TestWithoutAServiceManagerSilenceIsStillLogged(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		k.fed = false
		k.Pulse("api", 20*time.Second)
		if fed, _ := k.fedIn(5 * time.Minute); fed != 0 {
			t.Errorf("fed %d times", fed)
		}
		if !strings.Contains(k.log.String(), "actor is silent") {
			t.Error("nothing in the log")
		}
	})
}
