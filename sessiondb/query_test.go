package sessiondb

import (
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

func TestParseQuery(t *testing.T) {
	for text, want := range map[string]string{
		``: ``, `  `: ``, `"`: ``, `""`: ``, `*`: ``, `NOT`: ``, `AND OR NOT`: ``, `NOT secret`: ``, `+-?!`: ``, `(((`: ``, "\x00": ``,
		`hello`:                   `("hello")`,
		`hello world`:             `("hello" AND "world")`,
		`hello AND world`:         `("hello" AND "world")`,
		`and or not`:              `("and" AND "or" AND "not")`,
		`a OR b c`:                `("a") OR ("b" AND "c")`,
		`a OR`:                    `("a")`,
		`OR a`:                    `("a")`,
		`a AND NOT b`:             `(("a") NOT ("b"))`,
		`a NOT b NOT c d`:         `(("a" AND "d") NOT ("b" OR "c"))`,
		`a NOT`:                   `("a")`,
		`a NOT OR b`:              `("a") OR ("b")`,
		`"exact phrase" x`:        `("exact phrase" AND "x")`,
		`"open phrase`:            `("open" AND "phrase")`,
		`pre*`:                    `("pre" *)`,
		`***pre**`:                `("pre" *)`,
		`p*e`:                     `("pe")`,
		`main.go foo-bar a_b`:     `("main.go" AND "foo-bar" AND "a_b")`,
		`(foo, bar); baz?`:        `("foo" AND "bar" AND "baz")`,
		`content:foo`:             `("content:foo")`,
		`NEAR(a b)`:               `("NEAR" AND "a" AND "b")`,
		`^start`:                  `("start")`,
		`{content} : x`:           `("content" AND "x")`,
		"a\x00b":                  `("a" AND "b")`,
		`/etc/passwd`:             `("etc/passwd")`,
		`c++`:                     `("c")`,
		`it's`:                    `("it's")`,
		`世界`:                      `("世界")`,
		`🙂`:                       `("🙂")`,
		"\xff\xfea":               `("a")`,
		strings.Repeat("x", 5000): `("` + strings.Repeat("x", maxQueryRunes) + `")`,
	} {
		if got := parseQuery(text).fts(true); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
	if n := len(parseQuery(strings.Repeat("w ", 1000)).terms()); n != maxTerms {
		t.Errorf("%d terms", n)
	}
}

func TestRoutes(t *testing.T) {
	for text, want := range map[string]string{
		`hello`: "words", `a`: "words", `世界人`: "fragments", `世界`: "scan", `hello 世界人`: "fragments", `hi 世界人`: "scan",
		`สวัสดี`: "fragments", `🙂🙂🙂`: "fragments", `🙂`: "scan", `x NOT 世界`: "scan",
	} {
		ix, ok := parseQuery(text).route()
		got := map[bool]string{true: []string{"words", "fragments"}[ix], false: "scan"}[ok]
		equal(t, text, got, want)
	}
}

// Nothing that a person can type is a syntax error, in either index or in a scan.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{`a OR b`, `"x`, `NEAR(a, 2)`, `a* NOT (b`, "世界\x00\"", `-a`, `{}:^"'\`, `a AND AND b`, "\xc3\x28", `🙂*`, `"" OR ""`, `col : x`} {
		f.Add(seed)
	}
	mem, err := sqlite.OpenMemory(`CREATE TABLE messages(id INTEGER PRIMARY KEY, content TEXT);
 CREATE VIRTUAL TABLE w USING fts5(content, tokenize='` + indexes[words].tokenize + `');
 CREATE VIRTUAL TABLE t USING fts5(content, tokenize='` + indexes[fragments].tokenize + `');
 INSERT INTO w(content) VALUES('a b c'); INSERT INTO t(content) VALUES('a b c'); INSERT INTO messages(content) VALUES('a b c')`)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { mem.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		e := parseQuery(text)
		if len(e) == 0 {
			return
		}
		like, patterns := e.like()
		err := mem.Do(func(tx *sqlite.Tx) error {
			for sql, args := range map[string][]any{
				`SELECT rowid FROM w WHERE w MATCH ?`:              {e.fts(true)},
				`SELECT rowid FROM t WHERE t MATCH ?`:              {e.fts(false)},
				`SELECT m.id FROM messages m WHERE (` + like + `)`: patterns,
			} {
				for _, err := range tx.Query(sql, args...) {
					if err != nil {
						t.Errorf("%q became %s: %v", text, args, err)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		excerpt(text, e)
		e.asWords(text)
		rank([]candidate{{content: text}, {content: "a b"}}, e)
	})
}
