package sessiondb

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const planted = "only in memory"

// plant changes a row that is kept, and not in the file: where it is read, the kept rows were believed.
func plant(t *testing.T, s *Store, session string) {
	t.Helper()
	transcript(t, s, session)
	k, ok := s.kept.of[session]
	if !ok || len(k.rows) == 0 {
		t.Fatal("nothing is kept")
	}
	k.rows[0].Content = planted
}

// Rows that are kept are given for those of the file only while they are those of the file, whichever door somebody came through: each
// of them is used by another handle, as another process would.
func TestKeptRowsAreTheFilesRows(t *testing.T) {
	for name, door := range map[string]func(t *testing.T, other *Store, l Lease){
		"rewind": func(t *testing.T, other *Store, l Lease) {
			_, err := other.RewindTurns(t.Context(), l, -1)
			must(t, err)
		},
		"rewind and as many rows again": func(t *testing.T, other *Store, l Lease) {
			_, err := other.RewindTurns(t.Context(), l, -1)
			must(t, err)
			converse(t, other, l, "3")
		},
		"compaction": func(t *testing.T, other *Store, l Lease) {
			_, err := other.ArchiveAndCompact(t.Context(), here(compacting(t, other, l.Session), transcript(t, other, l.Session), 1))
			must(t, err)
		},
		"repair of a text": func(t *testing.T, other *Store, l Lease) {
			wire := "another"
			row := transcript(t, other, l.Session)[2]
			must(t, other.Repair(t.Context(), l, []RowRepair{{ID: row.ID, OldDigest: row.Digest(), Wire: &wire}}))
		},
		"repair that drops": func(t *testing.T, other *Store, l Lease) {
			row := transcript(t, other, l.Session)[2]
			must(t, other.Repair(t.Context(), l, []RowRepair{{ID: row.ID, OldDigest: row.Digest(), Drop: true}}))
		},
		"delete and the same name again": func(t *testing.T, other *Store, l Lease) {
			must(t, other.Release(t.Context(), l))
			_, err := other.Delete(t.Context(), l.Session)
			must(t, err)
			_, err = other.CreateSession(t.Context(), NewSession{ID: l.Session})
			must(t, err)
			again, err := other.AcquireTurn(t.Context(), l.Session, self(t), 0)
			must(t, err)
			converse(t, other, again, "1")
			converse(t, other, again, "2")
		},
		"a foreign program changes": func(t *testing.T, other *Store, l Lease) {
			hermesDo(t, other.file.Path(), `UPDATE messages SET content = 'x' WHERE content = '1A'`)
		},
		"a foreign program moves rows here": func(t *testing.T, other *Store, l Lease) {
			away := conversation(t, other)
			rows := say(t, other, away, "moved")
			hermesDo(t, other.file.Path(), fmt.Sprintf(`UPDATE messages SET session_id = '%s' WHERE id = %d`, l.Session, rows[0].ID))
		},
		"a foreign program puts one row for another": func(t *testing.T, other *Store, l Lease) {
			hermesDo(t, other.file.Path(), `CREATE TABLE copy AS SELECT * FROM messages WHERE content = '1A'; DELETE FROM messages WHERE content = '1A';
 UPDATE copy SET content = 'x'; INSERT INTO messages SELECT * FROM copy`)
		},
		"a foreign program puts a row between": func(t *testing.T, other *Store, l Lease) {
			hermesDo(t, other.file.Path(), fmt.Sprintf(`INSERT INTO messages(id, uid, session_id, origin_id, role, content, created_at) VALUES(1, 'low', '%s', 1, 'user', 'x', 1)`, l.Session))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := testStore(t)
			other, _ := openWith(t, Options{Path: s.file.Path(), KeepBytes: -1})
			say(t, s, conversation(t, s), "one", "two") // so that there are numbers below
			write(t, s, `DELETE FROM messages`)
			l := conversation(t, s)
			converse(t, s, l, "1")
			converse(t, s, l, "2")
			plant(t, s, l.Session)
			door(t, other, l)
			equal(t, "live", fmt.Sprintf("%+v", transcript(t, s, l.Session)), fmt.Sprintf("%+v", transcript(t, other, l.Session)))
		})
	}
}

// The same for what comes from other files.
func TestKeptRowsFollowWhatIsBroughtBack(t *testing.T) {
	t.Run("import", func(t *testing.T) {
		path := hermesFile(t, 22)
		hermesDo(t, path, `INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1.7e9)`,
			`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'one', 1.7e9 + 1), ('s', 'assistant', 'two', 1.7e9 + 2)`)
		s, _ := testStore(t)
		bring(t, s, path)
		plant(t, s, "s")
		hermesDo(t, path, `UPDATE messages SET active = 0 WHERE content = 'one'`,
			`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'three', 1.7e9 + 3)`)
		other, _ := openStore(t, s.file.Path())
		bring(t, other, path)
		equal(t, "live", short(transcript(t, s, "s")), "two three")
	})
	t.Run("salvage", func(t *testing.T) {
		path, old, _, want := lossy(t)
		s, _ := openStore(t, path)
		plant(t, s, old.Session)
		other, _ := openWith(t, Options{Path: path, Heal: true})
		equal(t, "healed", len(want) > 0 && picture(t, other, old.Session) != "", true)
		equal(t, "live", short(transcript(t, s, old.Session)), short(transcript(t, other, old.Session)))
		if got := short(transcript(t, s, old.Session)); strings.Contains(got, planted) || !strings.Contains(got, "SUMMARY") {
			t.Error(got)
		}
	})
}

// Rows that are only added, by whomever, are read from the file, and the ones before them are not read again.
func TestKeptRowsAreNotReadAgain(t *testing.T) {
	s, _ := testStore(t)
	other, _ := openStore(t, s.file.Path())
	l := conversation(t, s)
	converse(t, s, l, "1")
	plant(t, s, l.Session)
	first := transcript(t, s, l.Session)
	converse(t, other, l, "2")
	converse(t, s, l, "3")
	mine := append(first, Message{Content: "mine"})
	equal(t, "live", short(transcript(t, s, l.Session)), planted+" call 1T 1A 2Q call 2T 2A 3Q call 3T 3A")
	equal(t, "what a caller appended", short(mine), planted+" call 1T 1A mine")
}

// What is kept is bounded over all conversations, the ones that rest go first, and one that rests too long is let go.
func TestKeptRowsAreBounded(t *testing.T) {
	s, _ := openWith(t, Options{Path: t.TempDir() + "/state.db", KeepBytes: 10_000})
	var all []Lease
	for range 5 {
		l := conversation(t, s)
		say(t, s, l, strings.Repeat("x", 3000))
		transcript(t, s, l.Session)
		all = append(all, l)
	}
	large := conversation(t, s)
	say(t, s, large, strings.Repeat("x", 20_000))
	transcript(t, s, large.Session)
	held := ""
	for i, l := range append(all, large) {
		if _, ok := s.kept.of[l.Session]; ok {
			held += fmt.Sprint(i, " ")
		}
	}
	equal(t, "held", held, "2 3 4 ")
	if s.kept.bytes > 10_000 || s.kept.bytes < 9000 {
		t.Error(s.kept.bytes)
	}
	s.DropIdle()
	equal(t, "held after a short rest", len(s.kept.of), 3)
	s.kept.drop(time.Now())
	equal(t, "held after a long one", fmt.Sprint(len(s.kept.of), s.kept.bytes), "0 0")
}
