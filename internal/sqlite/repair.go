package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// RepairOptions tell a repair what it cannot know: which tables hold somebody's rows, and how the search indexes of
// this kind of file are made. Everything but Path may be empty.
type RepairOptions struct {
	Path   string
	Label  string
	Tables []string // whose rows are counted; they may only grow against what could be read before

	Known         func(*Conn) error                 // refuses a database of another kind, by reading it
	RebuildIndex  func(*Tx) error                   // fills the search indexes from the rows
	RecreateIndex func(*Tx) error                   // drops them, also where they cannot be dropped, and makes them anew
	Probe         func(*Tx) error                   // writes and searches; it is rolled back
	Settle        func(*Tx) error                   // makes what is derived from rows, such as counters, agree with those that are left
	Forensic      func(path string) (string, error) // one more copy of the damaged file, before anything else

	Log *slog.Logger

	free func(dir string) (free, total uint64)
}

// Outcome is how a repair ended well.
type Outcome string

const (
	AlreadyHealthy Outcome = "already healthy" // nothing was done
	Repaired       Outcome = "repaired"
)

// RepairReport says what a repair found and did.
type RepairReport struct {
	Path     string           `json:"path"`
	Outcome  Outcome          `json:"outcome"`
	Trouble  string           `json:"trouble,omitempty"`  // what was wrong
	Strategy string           `json:"strategy,omitempty"` // the one that helped
	Tried    []string         `json:"tried,omitempty"`    // the ones that did not, with their reasons
	Before   map[string]int64 `json:"before,omitempty"`   // rows that could be read, by table
	After    map[string]int64 `json:"after,omitempty"`
	Backup   string           `json:"backup,omitempty"`   // the damaged file as it was
	Forensic string           `json:"forensic,omitempty"` // the copy that RepairOptions.Forensic made
	Journal  string           `json:"journal,omitempty"`
}

// Repair mends a damaged database that nobody has open. It works on a copy, tries one way after another until the copy
// passes every check and holds at least the rows that could be read before, and then writes it into the same file, in
// one transaction: who watches the file sees no replacement, and a kill leaves the old content or the new. Where
// nothing helps, the file stays as it is. It blocks for several reads of the whole file.
func Repair(ctx context.Context, o RepairOptions) (RepairReport, error) {
	f, err := newFile(Options{Path: o.Path, Label: o.Label, Log: o.Log})
	if err != nil {
		return RepairReport{}, err
	}
	if o.free == nil {
		o.free = spaceOf
	}
	r := &repair{f: f, o: o, report: RepairReport{Path: f.path}, scratch: f.path + ".repair-scratch"}
	lock, err := takeLock(ctx, repairLockPath(f.path), maintenanceLockWait)
	if err != nil {
		return r.report, f.explain(err, "it was left as it is")
	}
	defer lock.Close()
	err = r.run(ctx)
	return r.report, err
}

// repair is one run of it.
type repair struct {
	f       *File
	o       RepairOptions
	report  RepairReport
	scratch string
	version byte // of the journal, from the header: what the file goes back to
	written bool // the mended copy is in the file
}

func (r *repair) run(ctx context.Context) error {
	trouble, err := r.lookAtIt(ctx)
	if err != nil {
		return err
	}
	tried, err := openAttempts(r.f.path)
	if err != nil {
		return r.f.explain(err, "it was left as it is")
	}
	if trouble == nil {
		r.removeScratch() // of a repair that was killed once it had mended the file
		r.report.Outcome = AlreadyHealthy
		return errors.Join(tried.clear(), ClearDamage(r.f.path))
	}
	r.report.Trouble = trouble.Error()
	if err := tried.mayTry(r.f); err != nil {
		return err
	}
	if err := r.keepCopies(); err != nil {
		return err
	}
	if err := r.mend(ctx); err != nil {
		if class := ClassOf(err); class == Corrupt || class == NotADatabase {
			err = errors.Join(err, tried.failed())
		}
		return r.unmended(err)
	}
	r.report.Outcome = Repaired
	return errors.Join(tried.clear(), ClearDamage(r.f.path))
}

// unmended says in full what became of the file: it is as it was, but for the last step.
func (r *repair) unmended(err error) error {
	if r.written {
		return &problem.Error{
			Kind: problem.Damaged, Thing: r.f.thing(), What: "was mended, but what was written does not pass the checks",
			Fate: "the file as it was is in " + r.report.Backup, Remedy: PutBack, Err: err,
		}
	}
	if isProblem(err) && ClassOf(err) == Other {
		return err
	}
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Kind != problem.Damaged {
		return err
	}
	if class := ClassOf(err); class != Corrupt && class != NotADatabase {
		return r.f.explain(err, "it was left as it is")
	}
	return &problem.Error{
		Kind: problem.Damaged, Thing: r.f.thing(), What: "could not be repaired", Fate: "it was left as it is, and a copy is in " + r.report.Backup,
		Remedy: PutBack, Err: err,
	}
}

// lookAtIt tells damage (trouble) from what is no case for a repair (err): a file that is missing, locked, of another
// kind, or no database at all. Another process may have repaired it while this one waited for the lock.
func (r *repair) lookAtIt(ctx context.Context) (trouble, err error) {
	found, err := r.f.survey()
	switch {
	case err != nil:
		return nil, err
	case found == placeVacant:
		return nil, r.f.refuse(Missing, problem.NotFound, "does not exist", PutBack, fs.ErrNotExist)
	case found == placeEmpty:
		return nil, r.f.refuse(Missing, problem.NotFound, "is empty", PutBack, nil)
	}
	if err := r.f.preflight(ctx); err != nil && ClassOf(err) != Corrupt {
		if ClassOf(err) == NotADatabase {
			return nil, noCase(err)
		}
		return nil, err
	}
	_, c, err := source(ctx, r.f.path, r.f.opts.Label)
	if err == nil {
		defer r.f.drop(c)
		err = guard(func() error { return r.examine(c) })
	}
	if class := ClassOf(err); class == Corrupt || class == NotADatabase && !isProblem(err) {
		return err, nil
	}
	return nil, err
}

func isProblem(err error) bool { _, ok := errors.AsType[*problem.Error](err); return ok }

// noCase: what is not a database has no pages to mend.
func noCase(err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return err
	}
	told := *p
	told.Remedy = PutBack
	return &told
}

// examine is every check that needs no write.
func (r *repair) examine(c *Conn) error {
	faults, err := c.faults()
	if len(faults) > 0 {
		return classify(Corrupt, "integrity check: %s", faults[0])
	}
	if err != nil {
		return err
	}
	if r.o.Known != nil {
		return r.o.Known(c)
	}
	return nil
}

// keepCopies keeps the damaged file before anything else is tried: whatever happens from here on, it can be had back.
func (r *repair) keepCopies() (err error) {
	if err := r.f.refuseHolders(OpRepair, 0); err != nil {
		return err
	}
	if r.o.Forensic != nil {
		if r.report.Forensic, err = r.o.Forensic(r.f.path); err != nil {
			return r.f.explain(fmt.Errorf("keep a forensic copy: %w", err), "it was left as it is")
		}
	}
	if r.report.Backup, err = r.f.keepMalformed(r.o.free); err != nil {
		return r.f.explain(err, "it was left as it is")
	}
	return nil
}

// mend holds the file, mends a copy of it and writes the copy back.
func (r *repair) mend(ctx context.Context) error {
	held, err := r.f.sole(ctx, OpRepair)
	if err != nil {
		return err
	}
	defer r.f.drop(held)
	defer r.removeScratch()
	r.removeScratch()
	if err := r.roomFor(3); err != nil {
		return err
	}
	err = guard(func() error {
		if r.version, err = headerVersion(r.f.path); err != nil {
			return err
		}
		return r.f.copyTo(ctx, held, r.scratch, 0)
	})
	if err != nil {
		return fmt.Errorf("copy to mend: %w", err)
	}
	if err := guard(func() error { return r.mendScratch(ctx) }); err != nil {
		return err
	}
	return guard(func() error { return r.promote(held) })
}

func (r *repair) removeScratch() {
	for _, side := range append([]string{"", ".new", ".new-journal"}, sidecars...) {
		os.Remove(r.scratch + side)
	}
}

// headroom is what a disk must keep beside what a repair takes.
const headroom = 256 << 20

// roomFor refuses a repair that would fill the disk half way.
func (r *repair) roomFor(times uint64) error {
	free, total := r.o.free(r.f.dir())
	if need := times*uint64(r.f.size()) + max(headroom, total/50); free < need {
		return r.f.refuse(NoSpace, problem.Full, fmt.Sprintf("needs %d MB of free space to be repaired, there are %d", need>>20, free>>20), "free some space", nil)
	}
	return nil
}

// mendScratch tries the ways in order, the gentlest first, each on what the ones before have left.
func (r *repair) mendScratch(ctx context.Context) error {
	if err := setHeaderVersion(r.scratch, 1); err != nil { // a copy for ourselves needs no -wal
		return err
	}
	if r.o.Known != nil {
		if err := r.onScratch(r.o.Known); isProblem(err) && ClassOf(err) == Other { // of another kind, as far as it can be read
			return err
		}
	}
	var err error
	if r.report.Before, err = r.readable(); err != nil {
		return fmt.Errorf("count what can be read: %w", err)
	}
	last := errors.New("no strategy applies")
	for _, s := range r.strategies() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if last = r.tryStrategy(s); last == nil {
			r.report.Strategy = s.name
			return nil
		}
		r.report.Tried = append(r.report.Tried, s.name+": "+last.Error())
		r.f.log.Info("a way to repair did not help", "path", r.f.path, "strategy", s.name, "error", last)
	}
	return &classified{class: Corrupt, err: last}
}

func (r *repair) tryStrategy(s strategy) error {
	if err := s.run(); err != nil {
		return err
	}
	if r.o.Settle != nil {
		if err := r.onScratch(r.indexed(r.o.Settle)); err != nil {
			return err
		}
	}
	return r.probe()
}

// probe asks of the copy what will be asked of the file: sound pages and indexes, a search, a write, and the rows.
func (r *repair) probe() error {
	c, err := openScratch(r.scratch)
	if err != nil {
		return err
	}
	defer c.close()
	if err := r.examine(c); err != nil {
		return err
	}
	if r.report.After, err = c.count(r.o.Tables); err != nil {
		return err
	}
	for name, n := range r.report.Before {
		if r.report.After[name] < n && !mutation.On("repair-may-lose-rows") {
			return classify(Corrupt, "%d rows of %s would be left of %d that can be read", r.report.After[name], name, n)
		}
	}
	if r.o.Probe == nil {
		return nil
	}
	if err := c.control(sqlBegin); err != nil {
		return err
	}
	return errors.Join(r.o.Probe(&Tx{c}), c.rollback())
}

// promote writes the mended copy into the file that is held, in one transaction of SQLite's own: the inode stays, and
// a kill leaves frames or a journal that the next opener throws away.
func (r *repair) promote(held *Conn) error {
	if mutation.On("repair-promotes-by-rename") {
		return os.Rename(r.scratch, r.f.path)
	}
	if err := held.db.Restore("main", fileURI(r.scratch, "")); err != nil {
		return r.f.spaceDecides(fmt.Errorf("write the mended copy back: %w", err))
	}
	r.written = true
	if _, err := held.pragma("writable_schema=RESET"); err != nil {
		return fmt.Errorf("read the mended schema: %w", err)
	}
	if err := errors.Join(r.examine(held), r.sameCounts(held)); err != nil {
		return fmt.Errorf("verify the mended file: %w", err)
	}
	if r.version == 2 {
		if _, _, err := held.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
			return fmt.Errorf("checkpoint the mended file: %w", err)
		}
	}
	return r.sameJournal(held)
}

func (r *repair) sameCounts(c *Conn) error {
	now, err := c.count(r.o.Tables)
	if err == nil && !maps.Equal(now, r.report.After) {
		err = classify(Corrupt, "the file has %v rows, the mended copy %v", now, r.report.After)
	}
	return err
}

// sameJournal brings the file back to the journal it had.
func (r *repair) sameJournal(held *Conn) (err error) {
	want := "delete"
	if r.version == 2 {
		want = "wal"
	}
	if r.report.Journal, err = held.pragma("journal_mode"); err == nil && r.report.Journal != want {
		r.report.Journal, err = held.pragma("journal_mode=" + want)
	}
	if err == nil && r.report.Journal != want {
		err = fmt.Errorf("set journal mode %s: SQLite says %q", want, r.report.Journal)
	}
	return err
}

// headerVersion reads which journal a file has.
func headerVersion(path string) (byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	head, err := readHeader(file)
	if err != nil || len(head) < headerSize {
		return 0, errors.Join(classify(NotADatabase, "the header cannot be read"), err)
	}
	return head[headerWriteVer], nil
}

func setHeaderVersion(path string, version byte) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte{version, version}, headerWriteVer)
	return errors.Join(err, file.Close())
}
