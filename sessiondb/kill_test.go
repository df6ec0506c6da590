package sessiondb

import (
	"fmt"
	"strings"
	"testing"
)

// Whatever moment a process is killed at, each acknowledged row is there exactly once, rows come in their pairs, counters
// are exact, and the indexes agree with their marks.
func TestAcknowledgedRowsSurviveKill(t *testing.T) {
	path := t.TempDir() + "/state.db"
	var acked []string
	for kill := range 5 {
		c := startChild(t, "append", path, "")
		for range 7 + 11*kill { // another place of the loop each time
			line := c.Next()
			token, ok := strings.CutPrefix(line, "ack ")
			if !ok {
				t.Fatal(line)
			}
			acked = append(acked, token)
		}
		if err := c.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for line, more := c.Line(); more; line, more = c.Line() { // said before it died
			if token, ok := strings.CutPrefix(line, "ack "); ok {
				acked = append(acked, token)
			}
		}
		c.Kill()
		checkKilled(t, path, acked)
	}
	if len(acked) < 100 {
		t.Errorf("only %d rows were acknowledged: the test proves little", len(acked))
	}
}

func checkKilled(t *testing.T, path string, acked []string) {
	t.Helper()
	s, _ := openStore(t, path)
	for _, token := range acked {
		for _, what := range []string{" asked", " answered"} {
			if n := number(t, s, `SELECT count(*) FROM messages WHERE content = ?`, token+what); n != 1 {
				t.Errorf("%s%s is stored %d times", token, what, n)
			}
		}
	}
	equal(t, "rows without their pair", number(t, s, `SELECT count(*) FROM (SELECT 1 FROM messages GROUP BY substr(content, 1, instr(content, ' ')) HAVING count(*) <> 2)`), 0)
	equal(t, "wrong counters", number(t, s, `SELECT count(*) FROM sessions WHERE message_count <> (SELECT count(*) FROM messages WHERE session_id = sessions.id)`), 0)
	checkIndexes(t, s)
	for i := 0; i < len(acked); i += len(acked)/6 + 1 {
		hits, err := s.Search(t.Context(), Query{Text: acked[i]})
		equal(t, "hits of "+acked[i], fmt.Sprint(len(hits), err), "2 <nil>")
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, s)
	equal(t, "stale indexes", number(t, s, `SELECT count(*) FROM meta WHERE k LIKE '%stale'`), 0)
	equal(t, "documents", number(t, s, `SELECT count(*) FROM messages_fts_docsize`), number(t, s, `SELECT count(*) FROM messages`))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
