package chamber

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// kill9 kills a member of the cast in the middle of its writes, and proves that it was alive and had work acknowledged
// that it will not report itself. Then another process takes its place.
func kill9(name string) Fault {
	return Fault{Name: "kill -9 " + name, Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(name)
		if err != nil {
			return err
		}
		if err := s.untilBusy(ctx, p); err != nil {
			return err
		}
		if err := s.fell(p); err != nil {
			return err
		}
		return s.replace(ctx, p)
	}}
}

// killAll kills everybody at once, the lasting too.
func killAll() Fault {
	return Fault{Name: "kill -9 of everything", Do: func(ctx context.Context, s *Stage) error {
		for _, p := range s.cast {
			if err := s.untilBusy(ctx, p); err != nil {
				return err
			}
		}
		var fallen []*actorProcess
		for _, p := range s.cast {
			p.mu.Lock()
			p.killed = true
			p.mu.Unlock()
			_ = p.proc.Signal(syscall.SIGKILL)
			fallen = append(fallen, p)
		}
		for _, p := range fallen {
			if err := s.fell(p); err != nil {
				return err
			}
		}
		for _, p := range fallen {
			if err := s.replace(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}}
}

// untilBusy waits until the process works and then for a moment that the seed chooses, so that the kill comes at any
// point of a write.
func (s *Stage) untilBusy(ctx context.Context, p *actorProcess) error {
	event := p.part.Works
	if event == "" {
		event = "acked"
	}
	if event == "ready" {
		return nil
	}
	if err := p.awaitMore(ctx, event, 1+s.Rand.IntN(4)); err != nil {
		return err
	}
	return s.moment(ctx, 8*time.Millisecond)
}

// moment lets a time below most pass.
func (s *Stage) moment(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(time.Duration(s.Rand.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fell kills a process and proves that it was the signal that ended it.
func (s *Stage) fell(p *actorProcess) error {
	p.kill()
	_, signal, err := p.proc.Wait()
	if err != nil || signal != int(syscall.SIGKILL) {
		return fmt.Errorf("%s was to be killed, but it ended with signal %d: %v %s", p.name, signal, err, p.trouble())
	}
	s.Totals.Kills++
	return nil
}

// replace puts a new process in the place of one that has ended, and waits until it works.
func (s *Stage) replace(ctx context.Context, old *actorProcess) error {
	s.gone = append(s.gone, old)
	delete(s.cast, old.name)
	delete(s.lasting, old.name)
	if err := s.enter(old.part); err != nil {
		return err
	}
	return s.cast[old.name].await(ctx, "ready", 1)
}

// sigterm asks a member of the cast to end, in the middle of its writes, and proves that it did so with code 0.
func sigterm(name string) Fault {
	return Fault{Name: "SIGTERM " + name, Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(name)
		if err != nil {
			return err
		}
		if err := s.untilBusy(ctx, p); err != nil {
			return err
		}
		p.stop(ctx)
		if code, signal, err := p.proc.Wait(); code != 0 || signal != 0 || err != nil || p.count("ended") != 1 {
			return fmt.Errorf("%s ended with code %d, signal %d: %v %s", name, code, signal, err, p.trouble())
		}
		return s.replace(ctx, p)
	}}
}

// seen waits until a member of the cast has said something so often, from now on: the proof of what roles do themselves.
func seen(name, event string, times int) Fault {
	return Fault{Name: name + " " + event, Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(name)
		if err != nil {
			return err
		}
		return p.awaitMore(ctx, event, times)
	}}
}

// said waits until a member of the cast has said something at least once since it began.
func said(name, event string) Fault { return came(name, event, 1) }

// came is seen for what has come so often since the member of the cast began.
func came(name, event string, times int) Fault {
	return Fault{Name: name + " " + event, Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(name)
		if err != nil {
			return err
		}
		return p.await(ctx, event, times)
	}}
}

// flipModes changes the permissions of the files under the open handles, several times, and back.
func flipModes() Fault {
	return Fault{Name: "chmod flips", Do: func(ctx context.Context, s *Stage) (err error) {
		defer func() { err = errors.Join(err, s.chmod(0o600)) }()
		for range 3 + s.Rand.IntN(3) {
			for _, mode := range []os.FileMode{0o644, 0o400, 0o600} {
				if err := s.chmod(mode); err != nil {
					return err
				}
				info, err := os.Stat(s.Path(""))
				if err != nil || info.Mode().Perm() != mode {
					return fmt.Errorf("the file has mode %v: %v", info.Mode(), err)
				}
				if err := s.moment(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

func (s *Stage) chmod(mode os.FileMode) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(s.Path(suffix), mode); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// freeze stops the holder of a short lease for longer than the lease lives; another process takes it; then the first one
// goes on, and its late row must be refused.
func freeze(victim string, thief Part) Fault {
	return Fault{Name: "SIGSTOP past a lease", Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(victim)
		if err != nil {
			return err
		}
		if err := p.await(ctx, "holding", 1); err != nil {
			return err
		}
		if err := p.proc.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		defer p.proc.Signal(syscall.SIGCONT)
		thief.With.Session = p.last("holding").Text
		if err := s.enter(thief); err != nil {
			return err
		}
		t := s.cast[thief.name()]
		if err := t.await(ctx, "answered", 1); err != nil {
			return err
		}
		if err := errors.Join(p.proc.Signal(syscall.SIGUSR1), p.proc.Signal(syscall.SIGCONT)); err != nil {
			return err
		}
		<-p.proc.Done()
		s.gone = append(s.gone, p)
		delete(s.cast, victim)
		return nil
	}}
}
