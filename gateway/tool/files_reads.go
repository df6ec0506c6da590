package tool

import (
	"crypto/sha256"
	"io/fs"
	"sync"

	"gatewayd/internal/mutation"
)

// Bounds of what is remembered of a conversation's reading. What is forgotten costs a notice, never a file.
const (
	maxReaders = 128
	maxRead    = 256
	maxPages   = 16
)

// sightings is what each conversation has read of which file, in this process.
type sightings struct {
	mu        sync.Mutex
	bySession map[string]map[string]*sight
}

// sight is a file as a conversation last saw it.
type sight struct {
	stamp stamp
	pages map[[2]int]shownPage // by offset and limit
}

// stamp changes with a file, whoever changes it and however it is replaced.
type stamp struct {
	dev, ino       uint64
	size           int64
	mtime, changed int64 // nanoseconds
}

// shownPage is a page that a call was answered with.
type shownPage struct {
	turn, call string
	digest     [sha256.Size]byte
	noticed    bool // the last answer was that it is unchanged
}

// saw notes a file as it is now: it was read or written.
func (r *sightings) saw(session, path string, now stamp) *sight {
	if r.bySession == nil {
		r.bySession = map[string]map[string]*sight{}
	}
	files := r.bySession[session]
	if files == nil {
		makePlace(r.bySession, maxReaders)
		files = map[string]*sight{}
		r.bySession[session] = files
	}
	s := files[path]
	if s == nil || s.stamp != now {
		makePlace(files, maxRead)
		s = &sight{stamp: now, pages: map[[2]int]shownPage{}}
		files[path] = s
	}
	return s
}

func makePlace[V any](m map[string]V, most int) {
	for key := range m {
		if len(m) < most {
			return
		}
		delete(m, key)
	}
}

// wrote notes what a conversation has made of a file, so that its next write is not taken for one over somebody else's.
func (r *sightings) wrote(session, path string, info fs.FileInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw(session, path, stampOf(info))
}

// stale reports whether a file has changed since a conversation saw it. One that it never saw has not.
func (r *sightings) stale(session, path string, info fs.FileInfo) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.bySession[session][path]
	return s != nil && s.stamp != stampOf(info)
}

// again reports whether the page that a call is about to get stands in the conversation already, as the model is still sent it.
// It says so once: who asks again gets the page.
func (r *sightings) again(call Call, path string, info fs.FileInfo, offset, limit int, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, digest := [2]int{offset, limit}, sha256.Sum256([]byte(text))
	s := r.saw(call.Session, path, stampOf(info))
	page, known := s.pages[key]
	if known && !page.noticed && page.digest == digest && call.Shown != nil {
		there, ok := call.Shown(page.turn, page.call)
		if ok && sha256.Sum256([]byte(there)) == digest || mutation.On("unchanged-without-asking-the-rows") {
			page.noticed = true
			s.pages[key] = page
			return true
		}
	}
	if len(s.pages) >= maxPages {
		clear(s.pages)
	}
	s.pages[key] = shownPage{turn: call.Turn, call: call.ID, digest: digest}
	return false
}

func (r *sightings) drop(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.bySession, session)
}
