package faultfs

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// what is a kind of event.
type what int

const (
	created    what = iota // a name, for an empty file
	found                  // a file that was there before, durable
	deleted                // a name
	dirSynced              // the names
	wrote                  // data at off
	cut                    // to off bytes
	grown                  // to at least off bytes
	synced                 // the file
	syncFailed             // the file
	marked                 // a note of the test
)

// event is one change of a disk.
type event struct {
	kind what
	node int
	name string
	off  int64
	data []byte
}

// Loss is how a power cut treats what was not synced. The zero value loses all of it.
type Loss struct {
	Keep   bool   // loses nothing: as a killed process leaves it
	Sector int    // above 0: each sector of this many bytes arrived or not
	Whole  bool   // each write arrived in one piece or not
	Seed   uint64 // of what arrived
}

// Image is what a power cut left: the content of each file by its name.
type Image map[string][]byte

// Lay writes the files into a directory.
func (m Image) Lay(dir string) error {
	for name, content := range m {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Crash calls visit for every moment of what happened on the disk so far: after each change, in order. notes are the
// marks up to then; image builds what a power cut at this moment may leave.
func (d *Disk) Crash(visit func(n int, notes []string, image func(Loss) Image)) {
	d.mu.Lock()
	log := slices.Clone(d.log)
	d.mu.Unlock()
	s := state{files: map[int]*content{}, names: map[string]int{}}
	var notes []string
	for n, e := range log {
		if e.kind == marked {
			notes = append(notes, e.name)
		} else {
			s.apply(e)
		}
		visit(n, notes, func(l Loss) Image { return s.crash(l, rand.New(rand.NewPCG(l.Seed, uint64(n)))) })
	}
}

// state is the disk at one moment: what is durable, and what is on its way.
type state struct {
	files map[int]*content
	names map[string]int
	dir   []event // changes of names that were not synced
}

// content is one file.
type content struct {
	durable []byte
	pending []event // since the last sync
	orphans int     // so many of them were given up by a sync that failed
}

func (s *state) apply(e event) {
	switch e.kind {
	case found:
		s.files[e.node] = &content{durable: bytes.Clone(e.data)}
		s.names[e.name] = e.node
	case created:
		s.files[e.node] = &content{}
		s.dir = append(s.dir, e)
	case deleted:
		s.dir = append(s.dir, e)
	case dirSynced:
		s.names = s.renamed(len(s.dir))
		s.dir = nil
	case syncFailed:
		s.files[e.node].orphans = len(s.files[e.node].pending)
	case synced:
		c := s.files[e.node]
		for _, p := range c.pending[c.orphans:] {
			c.durable = change(c.durable, p, nil)
		}
		c.pending, c.orphans = nil, 0
	default:
		c := s.files[e.node]
		c.pending = append(c.pending, e)
	}
}

// renamed gives the names after the first n changes that were not synced.
func (s *state) renamed(n int) map[string]int {
	names := maps.Clone(s.names)
	for _, e := range s.dir[:n] {
		if e.kind == created {
			names[e.name] = e.node
		} else {
			delete(names, e.name)
		}
	}
	return names
}

func (s *state) crash(l Loss, random *rand.Rand) Image {
	arrived := 0
	switch {
	case l.Keep:
		arrived = len(s.dir)
	case l.Sector > 0 || l.Whole:
		arrived = random.IntN(len(s.dir) + 1)
	}
	image := Image{}
	names := s.renamed(arrived)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		image[name] = s.files[names[name]].crash(l, random)
	}
	return image
}

// crash gives what is left of one file.
func (c *content) crash(l Loss, random *rand.Rand) []byte {
	left := bytes.Clone(c.durable)
	if !l.Keep && l.Sector == 0 && !l.Whole {
		return left
	}
	rubbish := random
	if l.Keep || random.IntN(2) == 0 {
		rubbish = nil
	}
	chance := []int{10, 50, 90}[random.IntN(3)] // that a piece arrived, in percent
	for _, e := range c.pending {
		for _, piece := range pieces(e, l.Sector) {
			if l.Keep || random.IntN(100) < chance {
				left = change(left, piece, rubbish)
			}
		}
	}
	return left
}

// pieces splits a write at the sectors of the disk.
func pieces(e event, sector int) []event {
	if e.kind != wrote || sector == 0 {
		return []event{e}
	}
	var all []event
	for len(e.data) > 0 {
		n := min(len(e.data), sector-int(e.off)%sector)
		all = append(all, event{kind: wrote, off: e.off, data: e.data[:n]})
		e.off, e.data = e.off+int64(n), e.data[n:]
	}
	return all
}

// change does one change to the bytes of a file. A gap is filled with zeros, or with rubbish.
func change(b []byte, e event, rubbish *rand.Rand) []byte {
	end := e.off + int64(len(e.data))
	if e.kind == cut && end < int64(len(b)) {
		return b[:end]
	}
	for int64(len(b)) < end {
		var fill byte
		if rubbish != nil {
			fill = byte(rubbish.Uint32())
		}
		b = append(b, fill)
	}
	copy(b[e.off:], e.data)
	return b
}
