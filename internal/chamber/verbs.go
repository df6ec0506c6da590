package chamber

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// verbLoop runs verbs of the program, one after the other, as a person beside the daemon would.
type verbLoop struct {
	end   context.CancelFunc
	done  sync.WaitGroup
	wrong []string
	runs  int
}

func (s *Stage) startVerbs(ctx context.Context) *verbLoop {
	if len(s.Episode.Verbs) == 0 {
		return nil
	}
	ctx, end := context.WithCancel(ctx)
	l := &verbLoop{end: end}
	l.done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			verb := s.Episode.Verbs[i%len(s.Episode.Verbs)]
			if err := s.verb(verb); err != nil {
				l.wrong = append(l.wrong, err.Error())
				return
			}
			l.runs++
		}
	})
	return l
}

// notRunning is the exit code of a verb that asks a daemon which is not there: no fault here.
const notRunning = 69

// verb runs one verb to its end.
func (s *Stage) verb(args []string) error {
	var out, errs lockedBuffer
	argv := append([]string{s.Program, "--home", s.Dir}, args...)
	p, err := s.Start(argv, s.Env, s.Dir, &out, &errs)
	if err != nil {
		return err
	}
	code, signal, err := p.Wait()
	if err == nil && signal == 0 && (code == 0 || code == notRunning) {
		return nil
	}
	return fmt.Errorf("`gatewayd %v` ended with code %d, signal %d: %v %s%s", args, code, signal, err, errs.tail(), out.tail())
}

func (l *verbLoop) stop() []string {
	l.end()
	l.done.Wait()
	if l.runs == 0 && len(l.wrong) == 0 {
		return []string{errors.New("no verb was run").Error()}
	}
	return l.wrong
}
