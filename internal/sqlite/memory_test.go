package sqlite

import (
	"errors"
	"testing"
)

func TestMemoryKeepsNothingOfAFailedFunction(t *testing.T) {
	m, err := OpenMemory(`CREATE TABLE t(x); CREATE VIRTUAL TABLE f USING fts5(x)`)
	if err != nil {
		t.Fatal(err)
	}
	put := func(fail error) error {
		return m.Do(func(tx *Tx) error {
			if _, err := tx.Exec(`INSERT INTO t VALUES(1)`); err != nil {
				return err
			}
			_, err := tx.Exec(`INSERT INTO f VALUES('word')`)
			return errors.Join(err, fail)
		})
	}
	bad := errors.New("no")
	if err := put(bad); !errors.Is(err, bad) {
		t.Fatalf("failed function: %v", err)
	}
	if err := put(nil); err != nil {
		t.Fatal(err)
	}
	var rows, words int64
	err = m.Do(func(tx *Tx) error {
		_, a := tx.Row(`SELECT count(*) FROM t`, nil, &rows)
		_, b := tx.Row(`SELECT count(*) FROM f WHERE f MATCH 'word'`, nil, &words)
		return errors.Join(a, b)
	})
	if err != nil || rows != 1 || words != 1 {
		t.Errorf("rows %d, words %d, %v", rows, words, err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := put(nil); ClassOf(err) != Closed {
		t.Errorf("after Close: %v", err)
	}
	if _, err := OpenMemory(`CREATE TABLE`); err == nil {
		t.Error("a broken schema was taken")
	}
}
