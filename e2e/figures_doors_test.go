package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/internal/procfs"
	"gatewayd/internal/vigil"
)

// bareEnv makes this test binary a server that answers the bytes of the file that it names, on the address in its standard output.
const bareEnv = "GATEWAYD_E2E_BARE_ANSWER"

const (
	doorClients = 8                      // connections that are kept alive, each with one request under way
	doorTurn    = 500 * time.Millisecond // of one server before it is the other's turn
	doorTurns   = 10
	doorStreams = 500
)

// serveBare is chi and nothing around it.
func serveBare(path string) int {
	answer, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := chi.NewRouter()
	r.Get("/api/boards/{board}/tasks/{task}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(listener.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(listener, r))
	return 1
}

// doorFigures measures what the handler costs around an answer, and what open streams cost.
func doorFigures(t *testing.T) []figure {
	d := start(t, newHome(t, "model: {provider: offline}\n"))
	defer d.stop()
	d.call("POST", "/api/boards", map[string]string{"slug": "default"}, nil)
	var made struct{ Task card }
	d.call("POST", "/api/boards/default/tasks", map[string]string{"title": "a card"}, &made)
	path := "/api/boards/default/tasks/" + made.Task.ID
	health := d.hammer(t, d.base, "/health", 4*doorTurn)
	bare := d.bareBeside(t, path)
	var ours, theirs []float64
	for range doorTurns {
		ours = append(ours, d.hammer(t, d.base, path, doorTurn))
		theirs = append(theirs, d.hammer(t, bare, path, doorTurn))
	}
	read, limit := median(ours), median(theirs)
	return append([]figure{
		{Name: "/health over connections that are kept alive", Value: health, Unit: "/s", Limit: "the target", Ratio: health / 2000, Target: "≥ 2000 /s", Met: health >= 2000},
		{
			Name: "a card read with a key", Value: read, Unit: "/s", Limit: fmt.Sprintf("a bare chi handler of the same bytes: %s /s", short(limit)),
			Ratio: read / limit, Target: "≥ 0.6 ×", Met: read/limit >= 0.6,
		},
	}, d.streamFigures(t)...)
}

// bareBeside starts a bare server in a process of its own, which answers what the daemon answers at the path.
func (d *daemon) bareBeside(t *testing.T, path string) (base string) {
	t.Helper()
	response, err := d.send("GET", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	file := filepath.Join(t.TempDir(), "answer")
	if err := os.WriteFile(file, answer, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), bareEnv+"="+file), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(addr)
}

// hammer asks for a path as fast as it is answered, and gives the answers a second. The client is a few lines, so that the server
// is what is measured.
func (d *daemon) hammer(t *testing.T, base, path string, during time.Duration) float64 {
	t.Helper()
	var clients sync.WaitGroup
	counts := make([]int, doorClients)
	began := time.Now()
	for i := range doorClients {
		clients.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for time.Since(began) < during {
				if err := exchange(conn, in, d.request(base, path, "")); err != nil {
					t.Error(path, err)
					return
				}
				counts[i]++
			}
		})
	}
	clients.Wait()
	all := 0
	for _, n := range counts {
		all += n
	}
	return float64(all) / time.Since(began).Seconds()
}

func (d *daemon) request(base, path, header string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(base, "http://") + "\r\nAuthorization: Bearer " + d.key + "\r\n" + header + "\r\n"
}

// exchange sends a request and reads its answer, whose length is announced.
func exchange(conn net.Conn, in *bufio.Reader, request string) error {
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if first && !strings.HasPrefix(line, "HTTP/1.1 200") {
			return fmt.Errorf("answered %q", line)
		}
		if line == "\r\n" {
			break
		}
		if text, is := strings.CutPrefix(line, "Content-Length: "); is {
			if length, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return err
			}
		}
	}
	_, err := in.Discard(length)
	return err
}

// streamFigures opens many streams of a board's events and has one card made.
func (d *daemon) streamFigures(t *testing.T) []figure {
	memory := func() float64 {
		bytes, err := procfs.RSS(d.child.PID())
		if err != nil {
			t.Fatal(err)
		}
		return float64(bytes) / (1 << 20)
	}
	vigil.LetPass(2*time.Second, "what was measured before is let go")
	base := memory()
	var streams []*bufio.Reader
	for range doorStreams {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, d.request(d.base, "/api/boards/default/events", "Accept: text/event-stream\r\n")); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReaderSize(conn, 1<<12)
		if err := until(in, ": watching"); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, in)
	}
	grown := memory() - base
	var took []float64
	for i := range 20 {
		var heard sync.WaitGroup
		for _, in := range streams {
			heard.Go(func() {
				if err := until(in, `"kind":"created"`); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		d.call("POST", "/api/boards/default/tasks", map[string]string{"title": "card " + strconv.Itoa(i)}, nil)
		heard.Wait()
		took = append(took, float64(time.Since(began).Microseconds())/1e3)
	}
	grown = max(grown, memory()-base)
	return []figure{
		below(fmt.Sprintf("%d open streams of events, memory above none", doorStreams), grown, "MiB", 60),
		below(fmt.Sprintf("a card made → its event on all %d streams", doorStreams), median(took), "ms", 100),
	}
}

// until reads lines up to one that has the text.
func until(in *bufio.Reader, text string) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil || strings.Contains(line, text) {
			return err
		}
	}
}
