package chamber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The journal modes in which a chamber runs. Nobody sets one: it comes from the production decision, on the disk and
// with the library that are there (for delete in tests: a program whose pinned version forbids WAL).
const (
	WAL    = "wal"
	Delete = "delete"
)

// DefaultSeed is the base of all seeds where none is given.
const DefaultSeed = 20260923

// Options say where and how a chamber runs.
type Options struct {
	Dir     string   // must exist; the files are made in it
	Mode    string   // WAL or Delete: what the program must choose; "" takes what it chooses
	Program string   // gatewayd
	Env     []string // of the roles: PATH and the like
	Start   Starter
	Seed    uint64        // base; an episode's own is this + crc32(label); 0 means DefaultSeed
	Length  time.Duration // how long the roles work in each episode, beside what the faults take; 0 means 2 s
	Say     func(format string, args ...any)
	Replay  string // how an episode is run again, with %s for its label and %d for the base seed
}

// Chamber is one store and one board under torture. Its episodes run one after the other.
type Chamber struct {
	Options
	monitor *Monitor
	ctx     context.Context
	cancel  context.CancelFunc
	scanner sync.WaitGroup

	lasting  map[string]*actorProcess // over several episodes
	sessions map[string]Sample        // rows at the end of the last episode
	parts    int                      // counts processes, for tags
	Totals   Totals
}

// Totals are what a chamber did and checked, over all its episodes.
type Totals struct {
	Episodes int `json:"episodes"`
	Started  int `json:"processes"`
	Kills    int `json:"kills"` // kill -9
	Faults   int `json:"faults"`
	Acked    int `json:"acked_rows"` // each looked for after each episode
	Cards    int `json:"acked_cards"`
	Waits    int `json:"lock_waits"` // a lock that reached a role, in DELETE
	Scans    int `json:"descriptor_scans"`
}

// New prepares a chamber in an existing directory. Close it in any case.
func New(o Options) (*Chamber, error) {
	if o.Seed == 0 {
		o.Seed = DefaultSeed
	}
	if o.Length == 0 {
		o.Length = 2 * time.Second
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "ledgers"), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare chamber: %w", err)
	}
	o.Dir = dir
	monitor, err := newMonitor(filepath.Join(dir, "state.db"))
	if err != nil {
		return nil, fmt.Errorf("watch the descriptors of a chamber: %w", err)
	}
	c := &Chamber{Options: o, monitor: monitor, lasting: map[string]*actorProcess{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.scanner.Go(func() { c.monitor.run(c.ctx) })
	return c, nil
}

// Close ends the processes that last over episodes, and says what is wrong with how they ended.
func (c *Chamber) Close() error {
	var wrong []error
	for _, p := range c.lasting {
		p.stop(context.Background())
		for _, text := range p.verdict() {
			wrong = append(wrong, errors.New(text))
		}
	}
	c.cancel()
	c.scanner.Wait()
	return errors.Join(wrong...)
}

// seedOf is the seed of one episode in one mode.
func (c *Chamber) seedOf(label string) uint64 {
	return c.Seed + uint64(crc32.ChecksumIEEE([]byte(label)))
}

// Path is a file of the store: "" is the database, "-wal" and "-shm" are beside it.
func (c *Chamber) Path(suffix string) string { return filepath.Join(c.Dir, "state.db"+suffix) }

// start starts one part and waits for nothing.
func (c *Chamber) start(part Part, seed uint64) (*actorProcess, error) {
	c.parts++
	p := newActorProcess(part)
	argv, err := c.argv(part, seed)
	if err != nil {
		return nil, err
	}
	p.proc, err = c.Start(argv, c.Env, c.Dir, p, &p.errs)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	c.Totals.Started++
	return p, nil
}

func (c *Chamber) argv(part Part, seed uint64) ([]string, error) {
	params := part.With
	params.Home, params.Seed, params.Busy = c.Dir, seed, c.Mode == Delete
	if params.Tag == "" {
		params.Tag = part.name()
	}
	if argv, err := foreignArgv(part.Role, params); argv != nil || err != nil {
		return argv, err
	}
	told, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return []string{c.Program, "selftest", "role", part.Role, string(told)}, nil
}

// audit asks a fresh process what is in the files.
func (c *Chamber) audit(ctx context.Context, seed uint64, parted bool) (*Audit, error) {
	p, err := c.start(Part{Role: "audit", With: Params{Parted: parted}}, seed)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.proc.Done():
	case <-ctx.Done():
		p.kill()
		return nil, context.Cause(ctx)
	}
	if wrong := p.verdict(); len(wrong) > 0 {
		return nil, fmt.Errorf("audit: %s", wrong[0])
	}
	if a := p.last("audited").Audit; a != nil {
		return a, nil
	}
	return nil, errors.New("audit: it said nothing")
}
