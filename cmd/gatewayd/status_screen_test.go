package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"gatewayd/gateway"
	"gatewayd/internal/lastrun"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/notify"
	"gatewayd/sessiondb"
)

// worstDay is a daemon in a deep home with everything wrong at once, and more of everything than fits.
func worstDay(now time.Time) status {
	deep := "/srv/" + strings.Repeat("a-directory-with-a-long-name/", 12) + "gatewayd"
	next := now.Add(time.Hour)
	s := status{
		Running: true, PID: 4194304, Build: build{Version: "v12.34.56-789-g0123456789ab-dirty"}, Home: deep, Addr: "[fe80:1234:5678:9abc:def0:1234:5678:9abc%wlan0]:65535",
		Started: now.Add(-9999 * time.Hour), Unit: "gatewayd-of-somebody@long.service",
		Model:   modelStatus{Name: strings.Repeat("模型", 30), Window: 1 << 20, WindowFrom: "what the server says at /v1/models"},
		Store:   sessiondb.Health{State: sessiondb.StateQuarantined, Reason: "corrupt", Detail: deep + "/state.db is damaged: database disk image is malformed", Remedy: "gatewayd repair state"},
		Backups: backupStatus{Last: now.Add(-26 * time.Hour), Next: &next, Failed: "the round failed: no space left on device"},
		Gateway: gateway.Status{Conversations: 120, Queued: 999, Turns: 1e7, Failed: 1e5, Interrupted: 1e5},
		LastRun: gateway.Receipt{Run: lastrun.Run{PID: 1, Began: now}, Sentence: strings.Repeat("it was killed, and nobody knows by whom; ", 9), Waiting: 77, Turns: make([]gateway.Recovered, 64)},
		Dispatcher: dispatch.Status{
			Dispatching: true, InProgress: 64, MaxInProgress: 64, Stuck: &dispatch.Stuck{Since: now},
		},
	}
	for i := range 64 {
		s.Gateway.Running = append(s.Gateway.Running, gateway.RunningTurn{Session: fmt.Sprintf("s_%026d", i), Phase: "model", Since: now.Add(-99 * time.Hour), Progress: now.Add(-9 * time.Hour)})
	}
	for i := range 100 {
		slug := kanban.Slug(fmt.Sprintf("board-%02d-%s", i, strings.Repeat("x", 50)))
		b := dispatch.BoardStatus{Slug: slug, State: "ok", Running: 12, Ready: 345, Holds: map[dispatch.Reason]int{dispatch.NoLane: 300, dispatch.GlobalCap: 45}}
		if i == 99 {
			b.State, b.Hold = "disabled", &dispatch.Hold{Reason: dispatch.BoardDisabled, Detail: "it is damaged"}
		}
		s.Dispatcher.Boards = append(s.Dispatcher.Boards, b)
		s.Notifier.Boards = append(s.Notifier.Boards, notify.BoardStatus{Board: slug, OutboxCounts: kanban.OutboxCounts{Parked: 3}, Trouble: strings.Repeat("the receiver does not answer ", 9)})
	}
	s.Warnings = []warning{{"its program was replaced or removed since it was started", "restart the daemon; workers stay at work"}}
	for i := range 50 {
		s.Warnings = append(s.Warnings, warning{fmt.Sprintf("part %d is failed: open %s/part: permission denied", i, deep), "look at " + deep + "/part, then `gatewayd doctor`"})
	}
	return s
}

func screenful(s status, on screen) []string {
	var out strings.Builder
	printScreen(&out, s, on)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestStatusIsOneScreenOnTheWorstDayAndHidesNothingThatMatters(t *testing.T) {
	for _, on := range []screen{{24, 80}, {24, 60}, {50, 200}} {
		s := worstDay(time.Now())
		shown := screenful(s, on)
		all := strings.Join(shown, "\n")
		if len(shown) > on.lines-1 {
			t.Errorf("%d lines, and the prompt takes one of %d", len(shown), on.lines)
		}
		for _, words := range shown {
			if width := ansi.StringWidth(words); width > on.columns {
				t.Errorf("%d columns of %d: %s", width, on.columns, words)
			}
		}
		if on.columns < 80 {
			continue
		}
		for _, want := range []string{
			"pid 4194304", "/srv/", "gatewayd\n", "65535", "malformed", "FAILED", "26 hours old", "64 running", "STUCK since", "board-99", "disabled",
			"last run: it was killed", "! its program was replaced", "! part 0 is failed", "permission denied", "gatewayd doctor`", "more warnings", "more turns", "more boards", "300 notices of 100 boards",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("on %d × %d there is no %q", on.columns, on.lines, want)
			}
		}
		if t.Failed() {
			t.Fatal(all)
		}
	}
}

// What there is room for is shown: a quiet daemon's screen counts nothing as "more".
func TestStatusShowsAllThatFits(t *testing.T) {
	s := worstDay(time.Now())
	s.Warnings, s.Notifier.Boards, s.Gateway.Running, s.Dispatcher.Boards = s.Warnings[:2], nil, s.Gateway.Running[:3], s.Dispatcher.Boards[97:]
	shown := strings.Join(screenful(s, screen{lines: 24}), "\n")
	if strings.Contains(shown, " more ") || strings.Contains(shown, "…/part") || strings.Count(shown, "s_0000") != 3 || strings.Count(shown, "board-9") != 3 {
		t.Errorf("not all is there:\n%s", shown)
	}
	if strings.Index(shown, "board-99") > strings.Index(shown, "board-97") {
		t.Errorf("a board that is held comes after one that is not:\n%s", shown)
	}
}

func TestTheScreenIsThatOfTheTerminal(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skipf("SKIPPED: there is no terminal to be had: %v", err)
	}
	defer master.Close()
	defer tty.Close()
	need(t, pty.Setsize(tty, &pty.Winsize{Rows: 33, Cols: 99}))
	if got := screenOf(&printed{Writer: tty}); got != (screen{lines: 33, columns: 99}) {
		t.Errorf("at the terminal: %+v", got)
	}
	if got := screenOf(&strings.Builder{}); got != (screen{lines: 24}) {
		t.Errorf("into a pipe: %+v", got)
	}
}

func TestBackupsAreOneLine(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	next := now.Add(15 * time.Hour)
	for _, c := range []struct {
		b    backupStatus
		want string
	}{
		{backupStatus{}, "none yet; none is planned, see backup.every"},
		{backupStatus{Next: &next}, "none yet; next 2026-03-03 03:00"},
		{backupStatus{Last: now.Add(-9 * time.Hour), Next: &next}, "verified 2026-03-02 03:00, 9 hours old; next 2026-03-03 03:00"},
		{backupStatus{Last: now.Add(-72 * time.Hour), Next: &next, Failed: "no space"}, "FAILED; verified 2026-02-27 12:00, 3 days old; next 2026-03-03 03:00"},
	} {
		if got := backupWords(c.b, now); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
