package provider

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/homesocket"
)

// house runs the gates of a home until the test ends or stop is called.
func daemonGates(t *testing.T, home string) (g *Gates, stop func()) {
	t.Helper()
	g = NewGates(home, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	for !answers(home) {
		select {
		case <-done:
			t.Fatal("the gates ended")
		default:
		}
	}
	return g, stop
}

// answers asks whether a daemon listens; a question without a key is ended by it.
func answers(home string) bool {
	conn, err := homesocket.Dial(context.Background(), home, gateSocket)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func enter(t *testing.T, gate Gate, caller Caller) Permit {
	t.Helper()
	permit, err := gate.Enter(bounded(t), caller, nil)
	if err != nil {
		t.Fatal(err)
	}
	return permit
}

// waits enters in the background and tells when it is in.
func waitsFor(t *testing.T, gate Gate, caller Caller, placed chan<- Place) <-chan Permit {
	t.Helper()
	in := make(chan Permit, 1)
	ctx := bounded(t)
	go func() {
		permit, err := gate.Enter(ctx, caller, func(p Place) {
			select {
			case placed <- p:
			default:
			}
		})
		if err == nil {
			in <- permit
		}
		close(in)
	}()
	return in
}

func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("%s: nothing came", what)
		}
		return v
	case <-bounded(t).Done():
		t.Fatalf("%s: waited too long", what)
	}
	panic("unreachable")
}

func homes(t *testing.T) map[string]string {
	long := filepath.Join(t.TempDir(), strings.Repeat("a-long-name-of-a-directory/", 6))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"short": t.TempDir(), "longer than a socket's name": long}
}

func TestAWorkerWaitsInTheDaemonsQueue(t *testing.T) {
	for name, home := range homes(t) {
		t.Run(name, func(t *testing.T) {
			daemon, _ := daemonGates(t, home)
			limits := Limits{Concurrent: 1}
			chat, worker := daemon.Gate("k", limits), JoinGates(home, nil).Gate("k", limits)
			mine := enter(t, chat, Caller{CallerChat, "a"})
			placed := make(chan Place, 1)
			in := waitsFor(t, worker, Caller{CallerWorker, "w"}, placed)
			if p := receive(t, placed, "place"); p.Position != 1 || p.Waiting != 1 {
				t.Errorf("place %+v", p)
			}
			if s := daemon.Stats()[0]; s.Inside != 1 || len(s.Waiting) != 1 || s.Waiting[0].Caller != (Caller{CallerWorker, "w"}) {
				t.Errorf("%+v", s)
			}
			mine.Leave()
			theirs := receive(t, in, "the worker's permit")
			next := waitsFor(t, chat, Caller{CallerChat, "a"}, nil)
			theirs.Leave()
			receive(t, next, "the chat's permit").Leave()
			if info, err := os.Stat(filepath.Join(home, gateSocket)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("socket: %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestAKilledWorkersPermitComesBack(t *testing.T) {
	home := t.TempDir()
	daemon, _ := daemonGates(t, home)
	path := filepath.Join(home, gateSocket)
	// What the kernel does for a killed process: its connection ends. One dies with its permit, one while it waits.
	die := func() (net.Conn, *bufio.Scanner) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = json.NewEncoder(conn).Encode(gateAsk{Key: "k", Class: CallerWorker, Concurrent: 1})
		return conn, bufio.NewScanner(conn)
	}
	holder, lines := die()
	if !lines.Scan() || !strings.Contains(lines.Text(), `"go":true`) {
		t.Fatalf("got %q", lines.Text())
	}
	waiter, lines := die()
	if !lines.Scan() || !strings.Contains(lines.Text(), `"position":1`) {
		t.Fatalf("got %q", lines.Text())
	}
	in := waitsFor(t, daemon.Gate("k", Limits{Concurrent: 1}), Caller{CallerChat, "a"}, nil)
	_ = waiter.Close()
	_ = holder.Close()
	receive(t, in, "the chat's permit").Leave()
}

func TestADaemonThatIsGoneBlocksNobody(t *testing.T) {
	home := t.TempDir()
	worker := JoinGates(home, nil).Gate("k", Limits{Concurrent: 1})
	enter(t, worker, Caller{}).Leave() // there was never one

	daemon, stop := daemonGates(t, home)
	held := enter(t, daemon.Gate("k", Limits{Concurrent: 1}), Caller{})
	placed := make(chan Place, 1)
	in := waitsFor(t, worker, Caller{CallerWorker, "w"}, placed)
	receive(t, placed, "place")
	stop() // in the middle of the wait
	receive(t, in, "a permit of its own").Leave()
	held.Leave()

	daemon, stop = daemonGates(t, home)
	mine := enter(t, worker, Caller{CallerWorker, "w"})
	if s := daemon.Stats(); len(s) != 1 || s[0].Inside != 1 {
		t.Errorf("the worker did not join the next daemon: %+v", s)
	}
	stop() // in the middle of its call
	mine.Leave()
	enter(t, worker, Caller{}).Leave()
	if _, err := os.Stat(filepath.Join(home, gateSocket)); !os.IsNotExist(err) {
		t.Errorf("the socket stayed: %v", err)
	}
}

func TestASocketThatAKilledDaemonLeftIsTaken(t *testing.T) {
	home := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(home, gateSocket))
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = listener.Close()
	enter(t, JoinGates(home, nil).Gate("k", Limits{}), Caller{}).Leave()
	daemon, _ := daemonGates(t, home)
	enter(t, JoinGates(home, nil).Gate("k", Limits{}), Caller{}).Leave()
	if len(daemon.Stats()) != 1 {
		t.Error("the daemon did not take the name over")
	}
}

func TestAWaitThatAWorkerWasToldIsTheDaemonsToo(t *testing.T) {
	home := t.TempDir()
	daemon, _ := daemonGates(t, home)
	worker := JoinGates(home, nil).Gate("k", Limits{})
	enter(t, worker, Caller{}).Leave()
	worker.Hold(time.Now().Add(time.Hour))
	placed := make(chan Place, 1)
	ctx, cancel := context.WithCancel(bounded(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = daemon.Gate("k", Limits{}).Enter(ctx, Caller{}, func(p Place) {
			select {
			case placed <- p:
			default:
			}
		})
	}()
	if p := receive(t, placed, "place"); !p.Held || time.Until(p.Until) > retryAfterCap || !strings.Contains(p.String(), "asked everybody to wait") {
		t.Errorf("%+v", p)
	}
	cancel()
	<-done
}

func TestALineThatIsNoneIsEnded(t *testing.T) {
	home := t.TempDir()
	daemonGates(t, home)
	for _, line := range []string{"hello\n", "{}\n", strings.Repeat("x", 2*gateLine) + "\n"} {
		conn, err := net.Dial("unix", filepath.Join(home, gateSocket))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(line))
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
			t.Errorf("%.10q was answered: %v", line, err)
		}
		_ = conn.Close()
	}
}

func TestTheKeyOfAGateGivesNothingAway(t *testing.T) {
	a, b := GateKey("https://api.example/v1", "sk-secret"), GateKey("https://api.example/other", " sk-secret\n")
	if a != b || strings.Contains(a, "secret") || a == GateKey("https://api.example/v1", "sk-other") || a == GateKey("https://other.example/v1", "sk-secret") {
		t.Errorf("%s %s", a, b)
	}
}
