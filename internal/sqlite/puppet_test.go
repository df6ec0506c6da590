package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

const puppetPath = "GATEWAYD_TEST_SQLITE_PUPPET"

// puppet is another process with the database open, which does what it is told.
type puppet struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
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
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), puppetPath+"="+path, childMode+"="+mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &puppet{t: t, cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	t.Cleanup(p.end)
	p.want("ok")
	return p
}

func (p *puppet) pid() int { return p.cmd.Process.Pid }

// do gives an order and waits for the answer.
func (p *puppet) do(order string) string {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, order); err != nil {
		p.t.Fatal(err)
	}
	return p.read()
}

func (p *puppet) read() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the other process is gone: %v", p.lines.Err())
	}
	return p.lines.Text()
}

func (p *puppet) want(answer string) {
	p.t.Helper()
	if got := p.read(); got != answer {
		p.t.Fatalf("the other process says %q, not %q", got, answer)
	}
}

func (p *puppet) must(order string) {
	p.t.Helper()
	if got := p.do(order); got != "ok" {
		p.t.Fatalf("%s: the other process says %q", order, got)
	}
}

// end lets the process go, once.
func (p *puppet) end() {
	p.in.Close()
	p.cmd.Wait()
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
