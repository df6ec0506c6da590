package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

var errAfterwards = errors.New("fails after it wrote")

// model is what the database must hold: uid → body.
type model struct {
	f    *File
	rows map[string]string
}

func (m *model) set(uid, body string, fail error) Op {
	return Op{Label: "set " + uid, Do: func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO rows (uid, body) VALUES (?, ?) ON CONFLICT (uid) DO UPDATE SET body = excluded.body", uid, body)
		return errors.Join(err, fail)
	}}
}

// Whatever is done to a File, in whatever order, it holds exactly what was acknowledged.
func TestAFileAgreesWithASmallModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		o := testOptions(t)
		o.Log = nil
		o.Path = t.TempDir() + "/model.db"
		o.Journal.Mode = rapid.SampledFrom([]string{"wal", "delete"}).Draw(r, "journal")
		o.AutoCheckpoint = rapid.SampledFrom([]int{0, 1, 100}).Draw(r, "autocheckpoint")
		o.TornCheck = rapid.Bool().Draw(r, "torn")
		m := &model{rows: map[string]string{}}
		open := func() {
			f, err := Open(context.Background(), o)
			if err != nil {
				r.Fatal(err)
			}
			m.f = f
		}
		open()
		defer func() { m.f.Close() }()
		uid := rapid.Custom(func(r *rapid.T) string { return fmt.Sprint("u", rapid.IntRange(0, 9).Draw(r, "uid")) })
		r.Repeat(map[string]func(*rapid.T){
			"write": func(r *rapid.T) {
				u, body := uid.Draw(r, "u"), rapid.String().Draw(r, "body")
				if err := m.f.Write(context.Background(), m.set(u, body, nil)); err != nil {
					r.Fatal(err)
				}
				m.rows[u] = body
			},
			"fail": func(r *rapid.T) {
				if err := m.f.Write(context.Background(), m.set(uid.Draw(r, "u"), "never", errAfterwards)); !errors.Is(err, errAfterwards) {
					r.Fatal(err)
				}
			},
			"batch": func(r *rapid.T) {
				var wg sync.WaitGroup
				for i := range rapid.IntRange(2, 12).Draw(r, "n") {
					u, fails := fmt.Sprint("b", i), rapid.Bool().Draw(r, "fails")
					if !fails {
						m.rows[u] = "batch"
					}
					wg.Go(func() {
						var fail error
						if fails {
							fail = errAfterwards
						}
						if err := m.f.Write(context.Background(), m.set(u, "batch", fail)); fails != (err != nil) {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			},
			"reopen": func(r *rapid.T) {
				if err := m.f.Close(); err != nil {
					r.Fatal(err)
				}
				open()
			},
			"drop idle":  func(*rapid.T) { m.f.DropIdle() },
			"checkpoint": func(*rapid.T) { m.f.Checkpoint(context.Background()) },
			"truncate": func(r *rapid.T) {
				if m.f.Journal().Mode == "wal" {
					truncateShm(t, m.f)
				}
			},
			"": func(r *rapid.T) {
				got := map[string]string{}
				err := m.f.Read(context.Background(), func(c *Conn) error {
					for row, err := range c.Query("SELECT uid, body FROM rows") {
						if err != nil {
							return err
						}
						got[row.Text(0)] = row.Text(1)
					}
					return nil
				})
				if err != nil {
					r.Fatal(err)
				}
				if !maps.Equal(got, m.rows) {
					r.Fatalf("holds %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(m.rows)))
				}
			},
		})
	})
}

func FuzzWordsAndBlanks(f *testing.F) {
	for _, seed := range []string{"COMMIT", "-- x\nSELECT 1", "/* */;;begin", "/*", "--", "é SELECT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		rest := skipBlank(sql)
		if len(rest) > len(sql) || skipBlank(rest) != rest {
			t.Errorf("skipBlank(%q) = %q", sql, rest)
		}
		if blank(sql) && checkWord(sql) != nil {
			t.Errorf("nothing is refused: %q", sql)
		}
	})
}
