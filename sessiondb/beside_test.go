package sessiondb

import (
	"fmt"
	"testing"
)

// A conversation that is compacted again and again from another handle, while rows are appended to it without a pause,
// keeps every acknowledged row: live or folded, live at most once, and live ones in the order in which they were said.
func TestAppendsBesideCompactionsLoseNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/state.db"
	talker, _ := openStore(t, path)
	folder, _ := openStore(t, path)
	l := conversation(t, talker)
	const rows = 300
	said, spoke := make(chan error, 1), make(chan bool, 1)
	go func() {
		defer close(spoke)
		for i := range rows {
			if _, err := talker.Append(t.Context(), l, []NewMessage{{Role: "user", Content: fmt.Sprintf("%04d", i)}}); err != nil {
				said <- err
				return
			}
			select {
			case spoke <- true:
			default:
			}
		}
		said <- nil
	}()
	rounds, late := 0, 0
	for talking := true; talking; rounds++ {
		select {
		case err := <-said:
			if talking = false; err != nil {
				t.Fatal(err)
			}
		default:
		}
		n, err := foldHalf(t, folder, l.Session, spoke)
		if err != nil {
			t.Fatal(err)
		}
		late += n
	}
	for i := range rows {
		text := fmt.Sprintf("%04d", i)
		live := number(t, folder, `SELECT count(*) FROM messages WHERE content = ? AND active = 1`, text)
		folded := number(t, folder, `SELECT count(*) FROM messages WHERE content = ? AND compacted = 1`, text)
		if live+folded != 1 {
			t.Errorf("row %s is live %d times and folded %d times", text, live, folded)
		}
	}
	last := ""
	for _, m := range transcript(t, folder, l.Session) {
		if m.Kind == "" && m.Content <= last {
			t.Errorf("%s comes after %s", m.Content, last)
		} else if m.Kind == "" {
			last = m.Content
		}
	}
	equal(t, "wrong counters", number(t, folder, `SELECT count(*) FROM sessions WHERE message_count <> (SELECT count(*) FROM messages WHERE session_id = sessions.id AND active = 1)`), 0)
	if rounds < 5 || late == 0 {
		t.Errorf("%d compactions met %d late rows: the test proves little", rounds, late)
	}
}

// foldHalf compacts a conversation, a row having been said since it looked, and gives how many rows came meanwhile.
func foldHalf(t *testing.T, s *Store, session string, spoke <-chan bool) (late int, err error) {
	t.Helper()
	c := compacting(t, s, session)
	defer s.Release(t.Context(), c)
	rows := transcript(t, s, session)
	if len(rows) < 6 {
		return 0, nil
	}
	<-spoke // maybe of a row that was there already
	<-spoke
	got, err := s.ArchiveAndCompact(t.Context(), here(c, rows, len(rows)/2))
	return got.Late, err
}
