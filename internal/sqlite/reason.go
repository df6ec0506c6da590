package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gatewayd/internal/problem"
)

// Reason is why a handle is in quarantine; empty is healthy.
type Reason string

// The reasons, the one that is told first when several hold.
const (
	Healthy        Reason = ""
	ReasonCorrupt  Reason = "corrupt"   // the structure of the database is damaged
	ReasonReplaced Reason = "replaced"  // the path holds another file, or another database was written over this one
	ReasonLost     Reason = "lost wal"  // the -wal or the -shm is not the one on disk
	ReasonReadOnly Reason = "read only" // said at the open: the file is of a newer program (AsReadOnly)
)

// halt is a sticky finding.
type halt struct {
	class Class
	file  string
	err   error
}

// why is the one rule of quarantine: corrupt before replaced before lost before what was said at the open. Every write, checkpoint and maintenance
// goes by it, and so does Close.
func (f *File) why() (Reason, *halt) {
	if h := f.damage.of(f.ident.main); h != nil {
		return ReasonCorrupt, h
	}
	if h := f.replaced.Load(); h != nil {
		return ReasonReplaced, h
	}
	if h := f.loss.Load(); h != nil {
		return ReasonLost, h
	}
	if h := f.readOnly; h != nil {
		return ReasonReadOnly, h
	}
	return Healthy, nil
}

// Reason says why this handle must not write, checkpoint or be maintained any more. It reads flags and costs
// nothing; they are set by the checks before each transaction, by Stamp, and by whoever meets damage.
func (f *File) Reason() Reason {
	r, _ := f.why()
	return r
}

// Quarantine is Reason as the error for people; nil is healthy. Its ClassOf is Corrupt, NotADatabase, Replaced,
// Overwritten, LostWAL or ReadOnly.
func (f *File) Quarantine() error {
	if _, h := f.why(); h != nil {
		return h.err
	}
	return nil
}

// halted is Quarantine without damage, which the writer meets by itself.
func (f *File) halted() error {
	for _, flag := range []*atomic.Pointer[halt]{&f.replaced, &f.loss} {
		if h := flag.Load(); h != nil {
			return h.err
		}
	}
	return nil
}

// Replaced reports whether another database lies at the path, or over the open one. It reads a flag.
func (f *File) Replaced() bool { return f.replaced.Load() != nil }

// Lost reports whether the -wal or -shm of this handle is not the one on disk. It reads a flag. What was committed
// may live in a file without a name, which the last close frees: see Capture.
func (f *File) Lost() bool { return f.loss.Load() != nil }

// latch remembers damage of a path for the whole process: every handle of that file is in quarantine, also one that
// is opened later. It holds for one main file, by inode.
type latch struct{ found atomic.Pointer[latched] }

type latched struct {
	main inode
	halt halt
}

// latches are never forgotten: a path that was damaged once costs a few words.
var latches sync.Map

func latchOf(path string) *latch {
	l, _ := latches.LoadOrStore(path, &latch{})
	return l.(*latch)
}

func (l *latch) of(main inode) *halt {
	if d := l.found.Load(); d != nil && d.main == main {
		return &d.halt
	}
	return nil
}

// set is true for the first finding of this main file.
func (l *latch) set(main inode, h halt) bool {
	old := l.found.Load()
	return (old == nil || old.main != main) && l.found.CompareAndSwap(old, &latched{main, h})
}

// ClearDamage forgets that the database at path was found damaged. It is for a repair that has verified the file it
// leaves; an open of a latched file verifies it too, with a whole integrity check.
func ClearDamage(path string) error {
	full, err := resolve(path)
	if err != nil {
		return fmt.Errorf("clear damage of %s: %w", path, err)
	}
	latchOf(full).found.Store(nil)
	return nil
}

// admitLatched lets a file that was found damaged be opened only when nothing is wrong with it any more: somebody
// has repaired it, or copied a good one into it.
func (f *File) admitLatched(ctx context.Context, c *Conn) error {
	if f.damage.of(f.ident.main) == nil {
		return nil
	}
	verdict, err := c.integrity(ctx)
	if err != nil {
		return fmt.Errorf("check the integrity of a damaged database: %w", err)
	}
	if verdict != "ok" {
		return f.refuse(Corrupt, problem.Damaged, "is damaged: "+verdict, RepairRemedy(f.opts.Label), errors.New(verdict))
	}
	f.damage.found.Store(nil)
	f.log.Info("database is well again", "path", f.path)
	return nil
}

// integrity gives the first finding of a whole check, or "ok".
func (c *Conn) integrity(ctx context.Context) (verdict string, err error) {
	err = c.inRead(ctx, func(c *Conn) error {
		_, err := c.Row("PRAGMA integrity_check(1)", nil, &verdict)
		return err
	})
	return verdict, err
}
