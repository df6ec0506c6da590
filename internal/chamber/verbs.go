package chamber

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// betweenVerbs is how long a quick person needs to type the next one.
const betweenVerbs = 100 * time.Millisecond

// verbLoop runs verbs of the program, one after the other, as a person beside the daemon would: each at least once.
type verbLoop struct {
	end   context.CancelFunc
	done  sync.WaitGroup
	wrong []string
	runs  map[string]int
	tried int

	missing bool // the command line program of SQLite
}

func (s *Stage) startVerbs(ctx context.Context) {
	l := &s.verbs
	if len(s.Episode.Verbs) == 0 {
		return
	}
	ctx, l.end = context.WithCancel(ctx)
	l.runs = map[string]int{}
	l.done.Go(func() {
		for ; (ctx.Err() == nil || l.tried < len(s.Episode.Verbs)) && len(l.wrong) == 0; l.tried++ {
			verb := s.Episode.Verbs[l.tried%len(s.Episode.Verbs)]
			if err := s.verb(verb); err != nil {
				l.wrong = append(l.wrong, err.Error())
			}
			select {
			case <-time.After(betweenVerbs):
			case <-ctx.Done():
			}
		}
	})
}

// notRunning is the exit code of a verb that asks a daemon which is not there: no fault here.
const notRunning = 69

// shell is the command line program of SQLite, which may be on this machine.
const shell = "sqlite3"

// verb runs one verb to its end.
func (s *Stage) verb(args []string) error {
	code, said, err := s.runVerb(args)
	switch {
	case args[0] == shell && errors.Is(err, fs.ErrNotExist):
		s.verbs.missing = true
		return nil
	case err == nil && (code == 0 || code == notRunning):
		s.verbs.runs[args[0]]++
		return nil
	}
	return fmt.Errorf("`%v` ended with code %d: %v %s", args, code, err, said)
}

// runVerb gives the exit code and everything that was printed.
func (s *Stage) runVerb(args []string) (code int, said string, err error) {
	argv := append([]string{s.Program, "--home", s.Dir}, args...)
	if args[0] == shell {
		argv = args
	}
	var out, errs lockedBuffer
	p, err := s.Start(argv, s.Env, s.Dir, &out, &errs)
	if err != nil {
		return 0, "", err
	}
	code, signal, err := p.Wait()
	if err == nil && signal != 0 {
		err = fmt.Errorf("killed by signal %d", signal)
	}
	return code, errs.tail() + out.tail(), err
}

// answers runs a verb that must end with this code and say this. It is for what a person does, and for what must be
// refused to him.
func answers(code int, words string, args ...string) Fault {
	return Fault{Name: "gatewayd " + strings.Join(args, " "), Do: func(_ context.Context, s *Stage) error {
		got, said, err := s.runVerb(args)
		if err != nil || got != code || !strings.Contains(said, words) {
			return fmt.Errorf("ended with code %d instead of %d, or did not say %q: %v %s", got, code, words, err, said)
		}
		return nil
	}}
}

// stop ends the loop; a verb that never ran has shown nothing.
func (l *verbLoop) stop() []string {
	if l.end == nil {
		return nil
	}
	l.end()
	l.done.Wait()
	if len(l.wrong) == 0 && len(l.runs) == 0 {
		return []string{"no verb was run"}
	}
	return l.wrong
}
