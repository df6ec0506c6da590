package sqlite

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// fakeDisk scripts what the disk answers: each call takes the next answer, the last one stays.
type fakeDisk struct {
	probes []answer
	sets   map[string][]answer
	head   byte
	mount  string

	asked []string // journal modes that were set
	waits []time.Duration
}

type answer struct {
	mode string
	err  error
}

func next(answers *[]answer) (string, error) {
	a := (*answers)[0]
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return a.mode, a.err
}

func (d *fakeDisk) probe() (string, error) { return next(&d.probes) }
func (d *fakeDisk) header() byte           { return d.head }
func (d *fakeDisk) fstype() string         { return d.mount }

func (d *fakeDisk) set(mode string) (string, error) {
	d.asked = append(d.asked, mode)
	answers := d.sets[mode]
	if len(answers) == 0 {
		return mode, nil
	}
	defer func() { d.sets[mode] = answers }()
	return next(&answers)
}

func (d *fakeDisk) wait(pause time.Duration) error {
	d.waits = append(d.waits, pause)
	return nil
}

func TestJournalDecision(t *testing.T) {
	var (
		says = func(mode string) []answer { return []answer{{mode, nil}} }
		fail = func(err error) []answer { return []answer{{"", err}} }
		eio  = sqlite3.IOERR_READ
		odd  = errors.New("something else")
	)
	for _, tc := range []struct {
		name    string
		disk    fakeDisk
		config  JournalConfig
		unsafe  string
		mode    string
		assumed bool
		class   Class // of the error; "" is success
		asked   string
		log     string
	}{
		{name: "a new file becomes WAL", disk: fakeDisk{probes: says("delete")}, mode: "wal", asked: "wal"},
		{name: "WAL on disk is kept without a set", disk: fakeDisk{probes: says("wal")}, mode: "wal"},
		{
			name: "WAL on disk is kept against the configuration", disk: fakeDisk{probes: says("wal")},
			config: JournalConfig{Mode: "delete"}, mode: "wal", log: "configured journal mode delete is ignored",
		},
		{
			name: "WAL on disk is kept on a shared mount, aloud", disk: fakeDisk{probes: says("wal"), mount: "virtiofs"},
			mode: "wal", log: "does not carry it",
		},
		{
			name: "configured delete", disk: fakeDisk{probes: says("delete")},
			config: JournalConfig{Mode: "delete"}, mode: "delete", asked: "delete",
		},
		{
			name: "a cross-VM mount is recognised before the pragma", disk: fakeDisk{probes: says("delete"), mount: "9p"},
			mode: "delete", asked: "delete", log: "native volume",
		},
		{
			name: "a network mount is recognised before the pragma", disk: fakeDisk{probes: says("delete"), mount: "nfs4"},
			mode: "delete", asked: "delete", log: "local disk",
		},
		{
			name: "force takes WAL on a network mount", disk: fakeDisk{probes: says("delete"), mount: "nfs4"},
			config: JournalConfig{Force: true}, mode: "wal", asked: "wal",
		},
		{
			name: "an I/O error that passes is ridden out",
			disk: fakeDisk{probes: []answer{{"", eio}, {"", eio}, {"wal", nil}}}, mode: "wal",
		},
		{name: "an I/O error of the probe is raised", disk: fakeDisk{probes: fail(eio), head: 1}, class: IO},
		{
			name: "an I/O error of the switch is raised, never answered by DELETE",
			disk: fakeDisk{probes: says("delete"), sets: map[string][]answer{"wal": fail(eio)}}, class: IO, asked: "wal wal wal",
		},
		{
			name: "an I/O error of the switch that passes",
			disk: fakeDisk{probes: says("delete"), sets: map[string][]answer{"wal": {{"", eio}, {"wal", nil}}}},
			mode: "wal", asked: "wal wal",
		},
		{
			name: "a locking protocol error leaves rollback mode",
			disk: fakeDisk{probes: says("delete"), sets: map[string][]answer{"wal": fail(sqlite3.PROTOCOL)}},
			mode: "delete", asked: "wal delete", log: "WAL is not possible here",
		},
		{
			name: "not authorized leaves rollback mode",
			disk: fakeDisk{probes: says("delete"), sets: map[string][]answer{"wal": fail(sqlite3.AUTH)}},
			mode: "delete", asked: "wal delete",
		},
		{
			name: "never downgraded when a peer was faster",
			disk: fakeDisk{
				probes: []answer{{"delete", nil}, {"wal", nil}},
				sets:   map[string][]answer{"wal": fail(sqlite3.PROTOCOL)},
			},
			class: IO, asked: "wal",
		},
		{
			name: "never downgraded when the mode cannot be read again",
			disk: fakeDisk{
				probes: []answer{{"delete", nil}, {"", eio}},
				sets:   map[string][]answer{"wal": fail(sqlite3.PROTOCOL)},
			},
			class: IO, asked: "wal",
		},
		{
			name: "a silent refusal is seen in the answer",
			disk: fakeDisk{probes: says("delete"), sets: map[string][]answer{"wal": {{"delete", nil}}}},
			mode: "delete", asked: "wal delete", log: "refused WAL without an error",
		},
		{
			name:  "busy is tried three times and raised",
			disk:  fakeDisk{probes: says("delete"), sets: map[string][]answer{"wal": fail(sqlite3.BUSY)}},
			class: Busy, asked: "wal wal wal",
		},
		{name: "unknown mode, WAL in the header: nothing is touched", disk: fakeDisk{probes: fail(odd), head: 2}, mode: "wal", assumed: true},
		{
			name: "unknown mode, unreadable header: nothing is touched",
			disk: fakeDisk{probes: fail(odd), head: headerUnreadable}, mode: "wal", assumed: true,
		},
		{name: "protocol error in the probe, WAL in the header", disk: fakeDisk{probes: fail(sqlite3.PROTOCOL), head: 2}, mode: "wal", assumed: true},
		{name: "unknown mode, rollback in the header", disk: fakeDisk{probes: fail(odd), head: 1}, mode: "wal", asked: "wal"},
		{name: "unknown mode, empty file", disk: fakeDisk{probes: fail(odd), head: 0}, mode: "wal", asked: "wal"},
		{name: "damage is raised", disk: fakeDisk{probes: fail(sqlite3.NOTADB), head: 1}, class: NotADatabase},
		{name: "a release that must not enter WAL", disk: fakeDisk{probes: says("delete")}, unsafe: "3.50.4", mode: "delete", asked: "delete"},
		{
			name: "nor does Force make it", disk: fakeDisk{probes: says("delete")}, unsafe: "3.50.4",
			config: JournalConfig{Force: true}, mode: "delete", asked: "delete",
		},
		{
			name: "WAL on disk is kept by such a release, aloud", disk: fakeDisk{probes: says("wal")}, unsafe: "3.50.4",
			mode: "wal", log: "can lose a commit",
		},
		{
			name: "an unknown mode is not touched by such a release", disk: fakeDisk{probes: fail(odd), head: headerUnreadable},
			unsafe: "3.50.4", mode: "wal", assumed: true,
		},
		{
			name:   "a refused DELETE is believed",
			disk:   fakeDisk{probes: says("delete"), sets: map[string][]answer{"delete": {{"truncate", nil}}}},
			config: JournalConfig{Mode: "delete"}, class: Other, asked: "delete",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log lockedBuilder
			d := decider{disk: &tc.disk, config: tc.config, unsafe: tc.unsafe, log: textLog(&log), admit: func() error { return nil }}
			got, err := d.decide()
			if (err != nil) != (tc.class != "") || (err != nil && ClassOf(err) != tc.class) {
				t.Fatalf("got %+v, error %v of class %s, want class %q", got, err, ClassOf(err), tc.class)
			}
			if err == nil && (got.Mode != tc.mode || got.assumed != tc.assumed || got.Reason == "") {
				t.Errorf("got %+v, want mode %s, assumed %t", got, tc.mode, tc.assumed)
			}
			if asked := strings.Join(tc.disk.asked, " "); asked != tc.asked {
				t.Errorf("set %q, want %q", asked, tc.asked)
			}
			if !strings.Contains(log.String(), tc.log) {
				t.Errorf("log lacks %q: %s", tc.log, log.String())
			}
			if strings.Count(log.String(), "\n") > 1 {
				t.Errorf("more than one line of log: %s", log.String())
			}
		})
	}
}

// An assumed WAL never gets readers, and a rollback database neither.
func TestReadersOnlyWhereTheHeaderSaysWAL(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*Options)
		readers bool
	}{
		{"wal", func(*Options) {}, true},
		{"delete", func(o *Options) { o.Journal.Mode = "delete" }, false},
		{"assumed", func(o *Options) {
			mustOpen(t, *o).Close()
			o.seams.disk = func(disk) disk { return &fakeDisk{probes: []answer{{"", errors.New("odd")}}, head: 2} }
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions(t)
			tc.change(&o)
			var roles []role
			o.seams.opened = func(_ *Conn, r role) { roles = append(roles, r) }
			f := mustOpen(t, o)
			mustWrite(t, f, insert("a"))
			if n := count(t, f); n != 1 {
				t.Errorf("rows = %d", n)
			}
			if slices.Contains(roles, roleReader) != tc.readers {
				t.Errorf("connections of roles %v", roles)
			}
		})
	}
}

func TestANewFileOnAForeignMountOpensInRollbackMode(t *testing.T) {
	o := testOptions(t)
	o.seams.mount = func(string) string { return "virtiofs" }
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	if got := f.Journal(); got.Mode != "delete" || !strings.Contains(got.Reason, "virtiofs") {
		t.Errorf("journal = %+v", got)
	}
	if node, _ := statInode(f.Path() + "-wal"); node != (inode{}) {
		t.Error("a -wal was made")
	}
}
