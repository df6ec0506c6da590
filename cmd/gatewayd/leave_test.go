package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/config"
	"gatewayd/gateway"
	"gatewayd/internal/lastrun"
	"gatewayd/systemd"
)

// leavingDaemon makes a daemon that was told to stop, and says with which code it ended itself.
func leavingDaemon(t *testing.T, home string) (d *daemon, codes chan int) {
	codes = make(chan int, 1)
	d = &daemon{
		log: quiet(), notify: systemd.NewNotifier(), gateway: gateway.New(gateway.Options{}), talked: make(chan struct{}), apiStops: make(chan struct{}),
		exit: func(code int) { codes <- code },
	}
	d.config.Config = config.Default()
	d.config.Home = home
	var err error
	if d.diary, err = lastrun.Open(d.config.Home, "test"); err != nil {
		t.Fatal(err)
	}
	return d, codes
}

func stacksOf(t *testing.T, home string) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(home, "logs", "stacks-*.log"))
	if len(names) != 1 {
		t.Fatalf("files of stacks: %q", names)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAStopThatHangsIsEndedWithItsStacksBeforeSystemdWouldKillIt(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, codes := leavingDaemon(t, home)
		began := time.Now()
		l := d.takeLeave()
		if code := <-codes; code != exitFailed {
			t.Errorf("code %d", code)
		}
		<-l.done
		took, unit := time.Since(began), systemd.Unit{Stop: longestStop(d.config.Config)}
		if took < longestStop(d.config.Config) || took >= time.Duration(unit.StopSeconds())*time.Second {
			t.Errorf("after %v; a stop may take %v, and systemd kills after %d s", took, longestStop(d.config.Config), unit.StopSeconds())
		}
	})
	if text := stacksOf(t, home); !strings.Contains(text, "the stop did not end in 1m30s") || !strings.Contains(text, "takeLeave") {
		t.Errorf("%s", text)
	}
	if last := lastrun.Read(home); last.How != lastrun.Failed || last.Code != exitFailed {
		t.Errorf("%+v", last)
	}
}

// blocked is a log that holds whoever writes to it, until its reader goes on.
type blocked struct{ woken chan struct{} }

func (blocked) Enabled(context.Context, slog.Level) bool    { return true }
func (b blocked) Handle(context.Context, slog.Record) error { <-b.woken; return nil }
func (b blocked) WithAttrs([]slog.Attr) slog.Handler        { return b }
func (b blocked) WithGroup(string) slog.Handler             { return b }

func TestALogThatBlocksKeepsNoDaemonFromItsEnd(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, codes := leavingDaemon(t, home)
		reader := blocked{make(chan struct{})}
		d.log = slog.New(reader)
		d.fall(exitRestart, "no sign of life from api")
		if code := <-codes; code != exitRestart {
			t.Errorf("code %d", code)
		}
		close(reader.woken)
		synctest.Wait()
	})
	if last := lastrun.Read(home); last.How != lastrun.Failed || last.Detail != "no sign of life from api" {
		t.Errorf("%+v", last)
	}
	if text := stacksOf(t, home); !strings.Contains(text, "no sign of life from api") {
		t.Errorf("%s", text)
	}
}

func TestAStopThatEndsInTimeIsLeftAlone(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, codes := leavingDaemon(t, home)
		l := d.takeLeave()
		<-time.After(longestStop(d.config.Config) - time.Second)
		l.end()
		<-time.After(time.Hour)
		if len(codes) != 0 {
			t.Errorf("it was ended with %d", <-codes)
		}
	})
}

func TestAPartThatHangsEndsTheDaemonToBeStartedAgainUnlessItStopsAlready(t *testing.T) {
	d, codes := leavingDaemon(t, t.TempDir())
	d.giveUp([]string{"dispatcher"})
	if code := <-codes; code != exitRestart {
		t.Errorf("code %d", code)
	}
	if text := stacksOf(t, d.config.Home); !strings.Contains(text, "no sign of life from dispatcher") {
		t.Errorf("%s", text)
	}
	close(d.apiStops)
	if d.giveUp([]string{"dispatcher"}); len(codes) != 0 {
		t.Error("a daemon that stops was ended by the watchdog, too")
	}
}
