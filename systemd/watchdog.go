package systemd

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"gatewayd/internal/mutation"
)

// DefaultInterval is how often life is looked at where no service manager asks for it: hung actors are logged and
// shown in the health all the same.
const DefaultInterval = 30 * time.Second

// Watchdog feeds the service manager's watchdog for as long as every actor lives. Use NewWatchdog.
type Watchdog struct {
	notify   *Notifier
	log      *slog.Logger
	interval time.Duration
	fed      bool // somebody wants to be fed

	// wedged is told once of actors that were silent at Strikes looks in a row.
	wedged func(silent []string)

	mu      sync.Mutex
	pulses  []*Pulse
	strikes int

	news chan []Pulse // to be logged, by nobody else's leave: a log that nobody reads may block its writers for ever
}

// newsKept is how many changes wait for a log that blocks. The rest is dropped: nobody would read it in time.
const newsKept = 64

const (
	// Strikes is after how many looks in a row that found an actor silent nobody hopes any longer. Looks are counted, and not time: a
	// process that was stopped and goes on, or a machine that slept, finds every sign of life too old at its first look.
	Strikes = 9
	// FedStrikes is the same where a service manager waits to be fed: it kills one look later, and of what is killed nobody knows why.
	FedStrikes = 2
)

// NewWatchdog reads from the service manager how often it wants a sign. log may be nil.
func NewWatchdog(n *Notifier, log *slog.Logger) *Watchdog {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &Watchdog{notify: n, log: log, interval: DefaultInterval}
	asked, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog of systemd is not understood, it is not fed", "error", err)
	}
	if asked > 0 {
		w.interval, w.fed = asked, true
	}
	return w
}

// OnWedged has f told, once, of actors that do not come back. It is to end the process, before a service manager does that waits to be
// fed. Call it before Run.
func (w *Watchdog) OnWedged(f func(silent []string)) { w.wedged = f }

// Pulse is the life of one actor. Its methods are safe for concurrent use.
type Pulse struct {
	watchdog *Watchdog
	name     string
	silence  time.Duration
	last     time.Time
	late     bool
}

// Pulse adds an actor that promises a Beat at least every silence; adding it counts as one. Beat from inside the
// actor's own loop, after a round of its real work: a beat from a timer of its own would prove nothing.
func (w *Watchdog) Pulse(name string, silence time.Duration) *Pulse {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &Pulse{watchdog: w, name: name, silence: silence, last: time.Now()}
	w.pulses = append(w.pulses, p)
	return p
}

// Beat is one sign of life.
func (p *Pulse) Beat() {
	p.watchdog.mu.Lock()
	defer p.watchdog.mu.Unlock()
	p.last = time.Now()
}

// End takes an actor out that has ended in order.
func (p *Pulse) End() {
	w := p.watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pulses = slices.DeleteFunc(w.pulses, func(other *Pulse) bool { return other == p })
}

// Probe watches an actor that has no rounds of its own: ask is called again and again while ctx lasts, and a good
// answer is a beat. It must go the way that the actor's users go, through its channel or lock, and end with its
// context. Where a service manager wants to be fed more often than every silence, that counts instead: a person who shortens WatchdogSec
// wants to wait no longer. Probe returns when ctx ends and takes the actor out.
func (w *Watchdog) Probe(ctx context.Context, name string, silence time.Duration, ask func(ctx context.Context) error) {
	if w.fed && !mutation.On("short-watchdog-is-not-minded") {
		silence = min(silence, w.interval)
	}
	p := w.Pulse(name, silence)
	defer p.End()
	ticker := time.NewTicker(silence / 3)
	defer ticker.Stop()
	for {
		if ask(ctx) == nil {
			p.Beat()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Run is the watchdog's actor: it feeds at a third of the asked interval while every actor is in time, and until
// ctx ends, the drain included. It logs when an actor falls silent and when it is back.
func (w *Watchdog) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.interval / 3)
	defer ticker.Stop()
	w.news = make(chan []Pulse, newsKept)
	defer close(w.news)
	go w.write(w.news)
	for {
		w.look()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look feeds or does not. Its log lines come when something changes, not at every look.
func (w *Watchdog) look() {
	silent, changed := w.survey()
	w.count(silent)
	select {
	case w.news <- changed:
	default:
	}
	if len(changed) > 0 && len(silent) > 0 {
		_ = w.notify.Status("no sign of life from " + strings.Join(silent, ", "))
	}
	if len(silent) > 0 && !mutation.On("watchdog-is-fed-beside-silence") || !w.fed {
		return
	}
	if err := w.notify.feed(); err != nil {
		w.log.Warn("watchdog could not be fed", "error", err)
	}
}

// write is the log's own goroutine.
func (w *Watchdog) write(news <-chan []Pulse) {
	for changed := range news {
		for _, p := range changed {
			if p.late {
				w.log.Error("actor is silent, watchdog is not fed", "actor", p.name, "limit", p.silence.String())
			} else {
				w.log.Info("actor is back", "actor", p.name)
			}
		}
	}
}

// count tells when silence has lasted for too many looks.
func (w *Watchdog) count(silent []string) {
	if len(silent) == 0 {
		w.strikes = 0
		return
	}
	most := Strikes
	if w.fed && !mutation.On("fed-daemon-waits-for-the-kill") {
		most = FedStrikes
	}
	if w.strikes++; w.strikes == most && w.wedged != nil {
		w.wedged(silent)
	}
}

// survey gives the names of the late and, as copies, those whose state is new.
func (w *Watchdog) survey() (silent []string, changed []Pulse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, p := range w.pulses {
		late := now.Sub(p.last) > p.silence
		if late {
			silent = append(silent, p.name)
		}
		if late != p.late {
			p.late = late
			changed = append(changed, *p)
		}
	}
	return silent, changed
}

// Silent gives the actors that are late now, for the health page.
func (w *Watchdog) Silent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, p := range w.pulses {
		if time.Since(p.last) > p.silence {
			names = append(names, p.name)
		}
	}
	return names
}
