package sessiondb

import (
	"fmt"
	"strings"
	"testing"
)

func search(t testing.TB, s *Store, q Query) []string {
	t.Helper()
	hits, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search %+v: %v", q, err)
	}
	out := make([]string, len(hits))
	for i, h := range hits {
		out[i] = h.Snippet
	}
	return out
}

// A row is found the moment it was acknowledged, and found the same way once it is indexed.
func TestSearchFindsTheSameBeforeAndAfterIndexing(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	say(t, s, l, "The quick brown fox", "jumps over café tables", "你好世界人民", "see internal/sqlite/file.go:12", "quick, again: QUICKLY done", "smile 🙂 now")
	queries := map[string][]string{
		`quick`:          {">>>quick<<<, again: QUICKLY done", "The >>>quick<<< brown fox"},
		`quick*`:         {">>>quick<<<, again: >>>QUICKLY<<< done", "The >>>quick<<< brown fox"},
		`"quick brown"`:  {"The >>>quick brown<<< fox"},
		`quick NOT fox`:  {">>>quick<<<, again: QUICKLY done"},
		`fox OR cafe`:    {"jumps over >>>café<<< tables", "The quick brown >>>fox<<<"},
		`世界人`:            {"你好>>>世界人<<<民"},
		`世界`:             {"你好>>>世界<<<人民"},
		`sqlite/file.go`: {"see internal/>>>sqlite/file.go<<<:12"},
		`uick`:           {"q>>>uick<<<, again: Q>>>UICK<<<LY done", "The q>>>uick<<< brown fox"},
		`🙂`:              {"smile >>>🙂<<< now"},
		`nothing`:        {}, `"`: {}, `NOT fox`: {},
	}
	check := func(when string) {
		t.Helper()
		for text, want := range queries {
			got := search(t, s, Query{Text: text})
			equal(t, when+": "+text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check("above the mark")
	equal(t, "nothing is indexed yet", number(t, s, `SELECT sum(v) FROM meta WHERE k LIKE '%mark'`), 0)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("indexed")
	checkIndexes(t, s)
	say(t, s, l, "a quick tail")
	equal(t, "half and half", search(t, s, Query{Text: "quick"})[:2], []string{"a >>>quick<<< tail", ">>>quick<<<, again: QUICKLY done"})
}

func TestSearchShowsOnlyWhatMayBeSeen(t *testing.T) {
	s, _ := testStore(t)
	l, other := conversation(t, s), conversation(t, s)
	hidden, err := s.CreateSession(t.Context(), NewSession{Hidden: true})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := s.AcquireTurn(t.Context(), hidden.ID, self(t), 0)
	rows := say(t, s, l, "token one", "token two", "token three", "token two")
	say(t, s, other, "token other")
	say(t, s, h, "token hidden")
	s.Append(t.Context(), other, []NewMessage{{Role: "tool", Content: "token tool 世界人"}})
	write(t, s, `UPDATE messages SET active = 0 WHERE id = ?`, rows[0].ID)                                  // superseded
	write(t, s, `UPDATE messages SET active = 0, compacted = 1 WHERE id IN (?, ?)`, rows[1].ID, rows[2].ID) // folded
	write(t, s, `UPDATE messages SET origin_id = ? WHERE id = ?`, rows[1].ID, rows[3].ID)                   // its live copy
	for _, when := range []string{"above the mark", "indexed"} {
		for name, c := range map[string]struct {
			q    Query
			want string
		}{
			"newest":   {Query{}, "tool 世界人, other, three, two"},
			"oldest":   {Query{Sort: Oldest}, "two, three, other, tool 世界人"},
			"limit":    {Query{Limit: 2}, "tool 世界人, other"},
			"session":  {Query{Session: l.Session}, "three, two"},
			"a hidden": {Query{Session: hidden.ID}, "hidden"},
			"all":      {Query{IncludeHidden: true, Limit: 3}, "tool 世界人, hidden, other"},
			"role":     {Query{Role: "tool"}, "tool 世界人"},
		} {
			c.q.Text = "token"
			got := strings.ReplaceAll(strings.Join(search(t, s, c.q), ", "), ">>>token<<< ", "")
			equal(t, when+", "+name, got, c.want)
		}
		equal(t, when+", tool rows in fragments", search(t, s, Query{Text: "世界人", Role: "tool"}), []string{"token tool >>>世界人<<<"})
		for _, order := range []Sort{Newest, Oldest, Relevance} {
			hits, _ := s.Search(t.Context(), Query{Text: "two", Sort: order})
			if len(hits) != 1 || hits[0].MessageID != rows[3].ID || !hits[0].Live || hits[0].OriginID != rows[1].ID {
				t.Errorf("%s, %s: the live copy stands for both: %+v", when, order, hits)
			}
		}
		if err := s.WaitIndexed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRelevanceAndNeighbours(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	say(t, s, l, "apple apple apple", "between", "apple and a great many other words that make this row a long one, about nothing at all", "the end")
	for range 2 {
		got := search(t, s, Query{Text: "apple", Sort: Relevance})
		if len(got) != 2 || !strings.HasPrefix(got[0], ">>>apple<<< apple") && !strings.HasPrefix(got[0], ">>>apple<<< >>>apple") {
			t.Errorf("best first: %q", got)
		}
		hits, _ := s.Search(t.Context(), Query{Text: "between", Context: true})
		equal(t, "neighbours", fmt.Sprint(hits[0].Before, "|", hits[0].After[:11]), "user: apple apple apple|user: apple")
		if err := s.WaitIndexed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Search(t.Context(), Query{Text: "x", Sort: "best"}); err == nil {
		t.Error("an unknown order was taken")
	}
}

// 1,200 ids in one list, although no statement binds more than a few.
func TestManyHitsAreReadByOneList(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	var best []candidate
	for range 4 {
		texts := make([]string, 300)
		for i := range texts {
			texts[i] = fmt.Sprint("row ", i)
		}
		for _, m := range say(t, s, l, texts...) {
			best = append(best, candidate{id: m.ID, origin: m.ID})
		}
	}
	hits, err := s.finishAlone(t.Context(), parseQuery("row"), Query{Limit: 2000, Sort: Newest}, &finding{list: best})
	equal(t, "hits", fmt.Sprint(len(hits), err), "1200 <nil>")
	got, err := s.Search(t.Context(), Query{Text: "row", Limit: 1000})
	equal(t, "bounded", fmt.Sprint(len(got), err), fmt.Sprint(maxHits, " <nil>"))
}

// With a long tail and no indexer's help in time, the rows above the mark are scanned; nothing is missed.
func TestSearchIsCompleteWithALongTail(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	for i := range 40 {
		texts := make([]string, 100)
		for j := range texts {
			texts[j] = fmt.Sprintf("common word%04d", i*100+j)
		}
		say(t, s, l, texts...)
	}
	e, q := parseQuery("word0007 OR word3999 OR word2500"), Query{Limit: 20, Sort: Newest}
	for _, mark := range []int{0, 2600} {
		if mark > 0 {
			for number(t, s, `SELECT v FROM meta WHERE k = 'fts_mark'`) < int64(mark) {
				if _, _, err := s.step(t.Context(), words); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, order := range []Sort{Newest, Oldest, Relevance} {
			q.Sort = order
			hits, err := s.searchOnce(t.Context(), words, e, q)
			equal(t, fmt.Sprint(order, " from ", mark), fmt.Sprint(len(hits), err), "3 <nil>")
		}
	}
}

// In a scan the wildcards of LIKE are ordinary characters.
func TestScanEscapesWildcards(t *testing.T) {
	s, _ := testStore(t)
	say(t, s, conversation(t, s), `100% 世界`, `100 apples 世界`, `a_b 世界`, `axb 世界`, `c\d 世界`)
	for text, want := range map[string]string{`"100% 世"`: `>>>100% 世<<<界`, `a_b 世界`: `>>>a_b<<< 世界`, `c\d 世界`: `>>>c\d<<< 世界`} {
		equal(t, text, search(t, s, Query{Text: text}), []string{want})
	}
}

// Of a long row the indexes hold the beginning; the end is found all the same, at the row's place among the others.
func TestLongRowsAreFoundToTheirEnd(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	long := strings.Repeat("filler ", 20000)
	say(t, s, l, "needle early", long+"needle end", strings.Repeat("x ", 15000)+"needle middle", long, "needle late")
	for _, when := range []string{"above the mark", "indexed"} {
		for _, text := range []string{"needle", "eedle"} {
			got := search(t, s, Query{Text: text})
			words := make([]string, len(got))
			for i, one := range got {
				words[i] = one[strings.LastIndex(one, " ")+1:]
			}
			equal(t, when+": "+text, words, []string{"late", "middle", "end", "early"})
			equal(t, when+": newest "+text, len(search(t, s, Query{Text: text, Limit: 1})), 1)
			if hit := search(t, s, Query{Text: text, Limit: 1})[0]; !strings.HasSuffix(hit, " late") {
				t.Errorf("%s: the newest is %q", when, hit)
			}
		}
		if err := s.WaitIndexed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkIndexes(t, s)
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: strings.Repeat("x", maxMessage+1)}}); err == nil {
		t.Error("a row without bound was taken")
	}
}
