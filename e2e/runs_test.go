package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// runEvent is one event of a run as a client has it.
type runEvent struct {
	id   int64
	name string
	body map[string]any
}

// follows reads the events of a run behind an id, and gives those that came before the connection ended; each is shown first and ends the
// reading with false.
func (d *daemon) follows(run string, after int64, each func(runEvent) bool) (list []runEvent) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.base+"/v1/runs/"+run+"/events", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var e runEvent
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return list
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "id: "):
			e.id, _ = strconv.ParseInt(line[4:], 10, 64)
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "data: "):
			_ = json.Unmarshal([]byte(line[6:]), &e.body)
		case line == "" && e.name != "":
			list = append(list, e)
			if each != nil && !each(e) {
				return list
			}
			e = runEvent{}
		}
	}
}

// A run is killed in the middle of its answer: the turn goes on at the next start, and who names the last event that it saw gets each other
// one, once, and one end with the whole answer. What was asked of the answer is asked in both processes.
func TestARunIsFollowedThroughAKill(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("word by word ", 12)
	var lives atomic.Int64
	gate := make(chan struct{}, 1000)
	s := newScene(t, forever(), func(fakellm.Request) fakellm.Response {
		if lives.Add(1) == 1 {
			return fakellm.Text{Text: answer, Gate: gate} // a few pieces, and then silence
		}
		return fakellm.Text{Text: answer, ChunkChars: 12, Delay: 20 * time.Millisecond}
	})
	for range 5 {
		gate <- struct{}{}
	}
	var run struct {
		ID      string `json:"run_id"`
		Session string `json:"session_id"`
		Status  string
		Output  string
	}
	s.call(http.MethodPost, "/v1/runs", map[string]any{"input": "tell me", "temperature": 0.25, "max_tokens": 77, "stop": "THE END"}, &run)
	seen := s.follows(run.ID, 0, func(e runEvent) bool { return e.name != "message.delta" })
	s.killed()
	s.again(s.home)
	last := seen[len(seen)-1].id
	seen = append(seen, s.follows(run.ID, last, nil)...)
	whole := s.follows(run.ID, 0, nil)
	if len(seen) != len(whole) {
		t.Fatalf("in two parts there are %d events, and %d in one", len(seen), len(whole))
	}
	ends, resumed, text := 0, 0, map[float64]string{}
	var voided float64 = -1
	for i, e := range seen {
		if e.id != int64(i+1) || whole[i].id != e.id || whole[i].name != e.name {
			t.Errorf("event %d is %d %s, and %d %s when it is read again", i+1, e.id, e.name, whole[i].id, whole[i].name)
		}
		switch e.name {
		case "run.resumed":
			resumed++
			voided = e.body["voided"].(float64)
		case "message.delta":
			text[e.body["message"].(float64)] += e.body["delta"].(string)
		case "run.completed", "run.failed", "run.cancelled", "run.interrupted":
			ends++
		}
	}
	delete(text, voided)
	end := seen[len(seen)-1]
	if ends != 1 || resumed != 1 || end.name != "run.completed" || end.body["output"] != answer {
		t.Errorf("%d ends, resumed %d times, the last: %+v", ends, resumed, end)
	}
	if len(text) != 1 || text[voided+1] != answer {
		t.Errorf("what was said, without what is void: %v", text)
	}
	for i, asked := range s.model.Requests() {
		if body := asked.JSON(); body["temperature"] != 0.25 || body["max_tokens"] != 77.0 || !reflect.DeepEqual(body["stop"], []any{"THE END"}) {
			t.Errorf("request %d of the model: temperature %v, max_tokens %v, stop %v", i, body["temperature"], body["max_tokens"], body["stop"])
		}
	}
	s.call(http.MethodGet, "/v1/runs/"+run.ID, nil, &run)
	if run.Status != "completed" || run.Output != answer || countTold(s.rows(run.Session), answer) != 1 {
		t.Errorf("%+v, and in the rows %d times", run, countTold(s.rows(run.Session), answer))
	}
	s.killed()
	s.again(s.home)
	if again := s.follows(run.ID, end.id, nil); len(again) != 0 {
		t.Errorf("after its end, and another start: %+v", again)
	}
	s.stop()
}

// A run that the daemon is not to go on with ends once, as interrupted, with the reason.
func TestARunThatIsNotGoneOnWithEndsAsInterrupted(t *testing.T) {
	t.Parallel()
	k := forever()
	k.agent = ", resume_attempts: 0"
	s := newScene(t, k, func(fakellm.Request) fakellm.Response { return fakellm.Hang{} })
	var run struct {
		ID     string `json:"run_id"`
		Status string
		Error  string
	}
	s.call(http.MethodPost, "/v1/runs", map[string]any{"input": "tell me"}, &run)
	s.follows(run.ID, 0, func(e runEvent) bool { return e.name != "model" })
	s.killed()
	s.again(s.home)
	all := s.follows(run.ID, 0, nil)
	s.call(http.MethodGet, "/v1/runs/"+run.ID, nil, &run)
	if end := all[len(all)-1]; end.name != "run.interrupted" || run.Status != "interrupted" || run.Error == "" {
		t.Errorf("%+v, %+v", end, run)
	}
	s.stop()
}
