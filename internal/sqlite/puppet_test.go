package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/peer"
)

const puppetPath = "GATEWAYD_TEST_SQLITE_PUPPET"

// puppet is another process with the database open, which does what it is told.
type puppet struct {
	t *testing.T
	*peer.Process
}

// puppetMain opens the database that the environment names and obeys one line at a time: "write UID", "close",
// "open", "half" (begins a transaction, of which pages are in the file already) and "finish" (commits it). It answers each with one line, "ok" or the error, and ends at end of file.
func puppetMain() bool {
	path := os.Getenv(puppetPath)
	if path == "" {
		return false
	}
	var f *File
	var half *sqlite3.Conn
	open := func() (err error) {
		f, err = Open(context.Background(), Options{Path: path, Label: "puppet", Journal: JournalConfig{Mode: os.Getenv(childMode)}})
		return err
	}
	tell := func(err error) {
		if err == nil {
			fmt.Println("ok")
			return
		}
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	tell(open())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "write":
			tell(f.Write(context.Background(), insert(rest)))
		case "close":
			tell(f.Close())
		case "open":
			tell(open())
		case "half":
			var err error
			if half, err = halfWritten(path); err == nil {
				defer half.Close()
			}
			tell(err)
		case "finish":
			tell(half.Exec("COMMIT"))
		}
	}
	return true
}

// newPuppet starts a process and waits until it has the database open.
func newPuppet(t *testing.T, path string) *puppet {
	t.Helper()
	return newPuppetIn(t, path, "")
}

func newPuppetIn(t *testing.T, path, mode string) *puppet {
	t.Helper()
	p := &puppet{t, peer.Self(t, puppetPath+"="+path, childMode+"="+mode)}
	p.Want("ok")
	return p
}

// do gives an order and waits for the answer.
func (p *puppet) do(order string) string {
	p.t.Helper()
	p.Say(order)
	return p.Next()
}

func (p *puppet) must(order string) {
	p.t.Helper()
	if got := p.do(order); got != "ok" {
		p.t.Fatalf("%s: the other process says %q", order, got)
	}
}

// halfWritten leaves a transaction open that has outgrown its cache: in rollback mode the journal is synced, and pages
// of the transaction are in the database.
func halfWritten(path string) (*sqlite3.Conn, error) {
	c, err := sqlite3.Open("file:" + path)
	for _, sql := range []string{"PRAGMA cache_size=2", "BEGIN IMMEDIATE"} {
		if err == nil {
			err = c.Exec(sql)
		}
	}
	for i := 0; i < 50 && err == nil; i++ {
		err = c.Exec(fmt.Sprintf("INSERT INTO rows (uid, body) VALUES ('half %d', hex(randomblob(4000)))", i))
	}
	return c, err
}
