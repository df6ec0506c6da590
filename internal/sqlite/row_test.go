package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, f *File, do func(*Tx) error) {
	t.Helper()
	mustWrite(t, f, Op{Label: "test", Do: do})
}

func TestValuesComeBackAsTheyWentIn(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	text, number, small := "x", int64(7), 8
	values := []any{
		nil, true, 42, int64(-1 << 62), 1.5, "ä\x00b",
		[]byte{0, 1},
		[]byte{},
		[]byte(nil),
		&text, &number, &small, (*string)(nil), (*int64)(nil), (*int)(nil),
	}
	want := []any{
		nil, int64(1), int64(42), int64(-1 << 62), 1.5, "ä\x00b",
		[]byte{0, 1},
		[]byte{},
		nil,
		"x", int64(7), int64(8), nil, nil, nil,
	}
	write(t, f, func(tx *Tx) error {
		for i, v := range values {
			for row, err := range tx.Query("SELECT ? AS it", v) {
				if err != nil {
					return err
				}
				if got := row.Any(0); !reflect.DeepEqual(got, want[i]) {
					t.Errorf("%#v came back as %#v, want %#v", v, got, want[i])
				}
				if names := row.Columns(); len(names) != 1 || names[0] != "it" {
					t.Errorf("columns = %v", names)
				}
			}
		}
		return nil
	})
}

func TestTypesThatWouldBeGuessedAtAreRefused(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	type named string
	write(t, f, func(tx *Tx) error {
		for _, v := range []any{time.Second, time.Now(), named("x"), int32(1), uint64(1), struct{}{}} {
			if _, err := tx.Row("SELECT ?", []any{v}, new(string)); err == nil || !strings.Contains(err.Error(), "plain types") {
				t.Errorf("%T: %v", v, err)
			}
		}
		for _, args := range [][]any{{}, {1, 2}} {
			if _, err := tx.Row("SELECT ?", args, new(int)); err == nil {
				t.Errorf("%d arguments for one parameter were taken", len(args))
			}
		}
		for _, dest := range [][]any{{new(uint)}, {}, {new(int), new(int)}} {
			if _, err := tx.Row("SELECT 1", nil, dest...); err == nil {
				t.Errorf("destinations %T were taken", dest)
			}
		}
		return nil
	})
}

func TestRowFillsEveryKindOfDestination(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	var (
		text      string
		number    int64
		small     int
		truth     bool
		real      float64
		blob      []byte
		optText   *string
		optNumber *int64
		noText    = &text
		noNumber  = &number
	)
	write(t, f, func(tx *Tx) error {
		found, err := tx.Row("SELECT 'a', 2, 3, 1, 1.5, x'00ff', 'o', 9, NULL, NULL", nil,
			&text, &number, &small, &truth, &real, &blob, &optText, &optNumber, &noText, &noNumber)
		if !found || err != nil {
			t.Errorf("found=%t, %v", found, err)
		}
		if found, err := tx.Row("SELECT 1 WHERE 0", nil, &small); found || err != nil || small != 3 {
			t.Errorf("no row: found=%t, %v, %d", found, err, small)
		}
		return nil
	})
	if text != "a" || number != 2 || small != 3 || !truth || real != 1.5 || !bytes.Equal(blob, []byte{0, 255}) ||
		*optText != "o" || *optNumber != 9 || noText != nil || noNumber != nil {
		t.Error("something is wrong:", text, number, small, truth, real, blob, *optText, *optNumber, noText, noNumber)
	}
}

func TestForeignValuesAreReadGently(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	write(t, f, func(tx *Tx) error {
		for row, err := range tx.Query("SELECT CAST(x'61ff62' AS TEXT), '12', '12.7', 'junk', 1.9, NULL, NULL") {
			if err != nil {
				return err
			}
			if got := row.Text(0); got != "a\uFFFDb" {
				t.Errorf("bad UTF-8 = %q", got)
			}
			if a, b, c, d := row.Int(1), row.Int(2), row.Int(3), row.Int(4); a != 12 || b != 12 || c != 0 || d != 1 {
				t.Errorf("coerced: %d %d %d %d", a, b, c, d)
			}
			if row.Text(5) != "" || row.Int(5) != 0 || row.Float(5) != 0 || row.Bool(5) || row.Bytes(5) != nil || !row.Null(6) {
				t.Error("NULL is not empty")
			}
		}
		return nil
	})
}

// A loop inside a loop over the same text needs a statement of its own; leaving a loop early must not pin it.
func TestLoopsNestAndEndEarly(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	const three = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 3) SELECT i FROM n"
	write(t, f, func(tx *Tx) error {
		var got []int64
		for outer, err := range tx.Query(three) {
			if err != nil {
				return err
			}
			for inner, err := range tx.Query(three) {
				if err != nil {
					return err
				}
				got = append(got, 10*outer.Int(0)+inner.Int(0))
				if inner.Int(0) == 2 {
					break
				}
			}
		}
		if want := []int64{11, 12, 21, 22, 31, 32}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v", got)
		}
		for _, st := range tx.stmts {
			if st.busy || st.s.Busy() {
				t.Error("a statement is still open after its loop")
			}
		}
		return nil
	})
}

func TestTheStatementCacheIsBounded(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	write(t, f, func(tx *Tx) error {
		for i := range 3 * stmtCacheMax {
			if _, err := tx.Row(fmt.Sprintf("SELECT %d", i), nil, new(int)); err != nil {
				return err
			}
		}
		if n := len(tx.stmts); n > stmtCacheMax {
			t.Errorf("%d statements kept", n)
		}
		return nil
	})
}

func TestExecSaysWhatItDid(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	write(t, f, func(tx *Tx) error {
		res, err := tx.Exec("INSERT INTO rows (uid) VALUES ('a'), ('b'), ('c')")
		if err != nil || res.Changes != 3 || res.LastID != 3 {
			t.Errorf("%+v, %v", res, err)
		}
		res, err = tx.Exec("UPDATE rows SET body = 'x' WHERE uid = 'nobody'")
		if err != nil || res.Changes != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		for _, bad := range []string{"SELECT 1; SELECT 2", "", "-- nothing", "SELEC 1", "SELECT nothing FROM rows"} {
			if _, err := tx.Exec(bad); err == nil {
				t.Errorf("%q was taken", bad)
			}
		}
		if _, err := tx.Exec("SELECT 1; -- a comment behind it is fine\n"); err != nil {
			t.Error(err)
		}
		return nil
	})
}

func TestAScriptRunsToItsFirstError(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	err := f.Write(t.Context(), Op{Label: "script", Do: func(tx *Tx) error {
		return tx.Script(`CREATE TABLE a (x); -- one
			/* two */ CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END;
			CREATE TABLE a (x); CREATE TABLE never (x)`)
	}})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("got %v", err)
	}
	write(t, f, func(tx *Tx) error {
		if found, err := tx.Row("SELECT 1 FROM sqlite_schema WHERE name IN ('a', 't', 'never')", nil, new(int)); found || err != nil {
			t.Errorf("half a script is left: %v", err)
		}
		return tx.Script("CREATE TABLE a (x); ; ; -- end")
	})
}

func TestTheSchemaIsBroughtUpToDateOnce(t *testing.T) {
	o := testOptions(t)
	runs := 0
	o.Migrate = func(tx *Tx) error { runs++; return migrate(tx) }
	for range 3 {
		mustOpen(t, o).Close()
	}
	if runs != 1 {
		t.Errorf("migrated %d times", runs)
	}
}

func TestAFailedMigrationLeavesTheFileAsItWas(t *testing.T) {
	o := testOptions(t)
	mustOpen(t, o).Close()
	broken := errors.New("broken migration")
	o.Stale = func(*Conn) (bool, error) { return true, nil }
	o.Migrate = func(tx *Tx) error {
		return errors.Join(tx.Script("DROP TABLE rows; CREATE TABLE other (x)"), broken)
	}
	if _, err := Open(t.Context(), o); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	o.Stale = stale
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
}

func TestAnOperationThatEndsTheGoroutineLeavesNobodyWaiting(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	err := f.Write(t.Context(), Op{Label: "goexit", Do: func(*Tx) error { runtime.Goexit(); return nil }})
	if ClassOf(err) != Closed {
		t.Errorf("got %v", err)
	}
	if err := f.Write(t.Context(), insert("a")); ClassOf(err) != Closed {
		t.Errorf("got %v", err)
	}
}
