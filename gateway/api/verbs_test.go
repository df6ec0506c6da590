package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatewayd/kanban"
)

// board makes a board with a card and gives the handler, the card's path, and who is woken.
func board(t *testing.T) (h http.Handler, card string, dispatch *bell) {
	t.Helper()
	dispatch = &bell{}
	boards := newShelf(t)
	h, _ = plain(func(o *Options) { o.Boards, o.Dispatch = boards, dispatch })
	wants(t, h, "POST", "/api/boards", `{"slug":"plans"}`, http.StatusCreated)
	return h, newCard(t, h, `{"title":"first","assignee":"dev"}`), dispatch
}

func newCard(t *testing.T, h http.Handler, body string) string {
	t.Helper()
	made := wants(t, h, "POST", "/api/boards/plans/tasks", body, http.StatusCreated)
	id, _ := made["task"].(map[string]any)["id"].(string)
	return id
}

func wants(t *testing.T, h http.Handler, method, path, body string, status int) map[string]any {
	t.Helper()
	w := ask(h, method, path, body)
	if w.Code != status {
		t.Fatalf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
	}
	return decoded(t, w)
}

// Everything that a client can get wrong is answered by a status of its own, with the field's name.
func TestWhatTheVerbsRefuse(t *testing.T) {
	h, id, dispatch := board(t)
	rough := newCard(t, h, `{"title":"rough","triage":true}`)
	woken := len(dispatch.woken)
	verb := func(name string) string { return "/api/boards/plans/tasks/" + id + "/" + name }
	task := "/api/boards/plans/tasks/" + id
	for _, c := range []struct {
		method, path, body string
		status             int
		param              any
	}{
		{"POST", verb("complete"), `{"summary":7}`, 400, "summary"},
		{"POST", verb("complete"), `{}`, 400, "summary"},
		{"POST", verb("complete"), "", 400, "summary"},
		{"POST", verb("complete"), `{"summary":"s","created_cards":["t_99999999"]}`, 400, "created_cards"},
		{"POST", verb("complete"), `{"summary":"s","run_id":"1"}`, 400, "run_id"},
		{"POST", verb("complete"), `{"summary":"s","run_id":7}`, 409, nil},
		{"POST", verb("complete"), `{"summary":"s","metadata":[1]}`, 400, "metadata"},
		{"POST", verb("complete"), `{"sumary":"s"}`, 400, "sumary"},
		{"POST", verb("block"), `{}`, 400, "reason"},
		{"POST", verb("block"), `{"reason":"r","kind":"bored"}`, 400, "kind"},
		{"POST", verb("unblock"), `{}`, 409, nil},
		{"POST", verb("schedule"), `{"due_at":"tomorrow"}`, 400, "due_at"},
		{"POST", verb("schedule"), `{"due_at":true}`, 400, "due_at"},
		{"POST", verb("schedule"), `{"due_at":1}`, 400, "due_at"},
		{"POST", verb("schedule"), `{"rule":"x"}`, 400, "rule"},
		{"POST", verb("schedule"), `{"rule":"@daily","zone":"Moon/Base"}`, 400, "zone"},
		{"POST", verb("request-changes"), `{"reason":""}`, 400, "reason"},
		{"POST", verb("request-changes"), `{"reason":"r"}`, 409, nil},
		{"POST", verb("specify"), `{"title":"t"}`, 409, nil},
		{"POST", "/api/boards/plans/tasks/" + rough + "/decompose", `{"children":[]}`, 400, "children"},
		{"POST", "/api/boards/plans/tasks/" + rough + "/decompose", `{"children":[{"title":"a","asignee":"x"}]}`, 400, "children[0].asignee"},
		{"POST", "/api/boards/plans/tasks/" + rough + "/decompose", `{"children":[{"title":"a"},{}]}`, 400, "children[1].title"},
		{"POST", "/api/boards/plans/tasks/" + rough + "/decompose", `{"children":[{"title":"a","parents":["#2"]}]}`, 400, "children"},
		{"POST", verb("assign"), `{}`, 400, "assignee"},
		{"POST", verb("assign"), `{"assignee":"null"}`, 400, "assignee"},
		{"POST", verb("reclaim"), `{}`, 409, nil},
		{"POST", verb("reclaim"), `{"run_id":1}`, 400, "run_id"},
		{"POST", verb("move"), `{}`, 400, "status"},
		{"POST", verb("move"), `{"status":"lost"}`, 400, "status"},
		{"POST", verb("move"), `{"status":"running"}`, 409, nil},
		{"POST", verb("set-model"), `{"provider_override":"p"}`, 400, "provider_override"},
		{"POST", verb("set-model"), `{"reasoning_effort":"some"}`, 400, "reasoning_effort"},
		{"POST", verb("claim"), `{"ttl_seconds":0}`, 400, "ttl_seconds"},
		{"POST", verb("heartbeat"), `{}`, 400, "run_id"},
		{"POST", verb("archive"), `{"now":true}`, 400, "now"},
		{"POST", verb("purge"), "", 409, nil},
		{"POST", verb("explode"), `{}`, 404, nil},
		{"POST", verb("comments"), `{"body":" "}`, 400, "body"},
		{"PATCH", task, `{}`, 400, nil},
		{"PATCH", task, `{"title":""}`, 400, "title"},
		{"PATCH", task, `{"max_retries":-1}`, 400, "max_retries"},
		{"PATCH", task, `{"skills":"go"}`, 400, "skills"},
		{"PATCH", task, `{"status":"running"}`, 409, nil},
		{"PATCH", task, `{"result":"r"}`, 409, nil},
		{"PATCH", "/api/boards/plans/tasks/t_none", `{"title":"x"}`, 404, nil},
		{"DELETE", "/api/boards/plans/tasks/t_none", "", 404, nil},
		{"POST", "/api/boards/plans/tasks/bulk", `{"status":"done"}`, 400, "ids"},
		{"POST", "/api/boards/plans/tasks/bulk", `{"ids":["` + id + `"],"archive":true,"status":"done"}`, 400, "archive"},
		{"POST", "/api/boards/plans/links", `{"parent_id":"` + id + `"}`, 400, "child_id"},
		{"POST", "/api/boards/plans/links", `{"parent_id":"` + id + `","child_id":"` + id + `"}`, 400, "parent_id"},
		{"DELETE", "/api/boards/plans/links?parent_id=" + id, "", 400, "child_id"},
		{"GET", "/api/boards/plans/runs/x", "", 400, "run"},
		{"GET", "/api/boards/plans/runs/7", "", 404, nil},
		{"POST", "/api/boards/plans/runs/7/terminate", "", 404, nil},
		{"GET", task + "?run_state_type=colour&run_state_name=red", "", 400, "run_state_type"},
		{"GET", task + "?run_state_type=outcome", "", 400, "run_state_name"},
		{"GET", "/api/boards/plans/tasks?sort=color", "", 400, "sort"},
		{"GET", "/api/boards/plans/columns?status=lost", "", 400, "status"},
		{"GET", "/api/boards/none/columns", "", 404, nil},
		{"GET", "/api/boards/none/workflow", "", 404, nil},
		{"PATCH", "/api/boards/plans", `{"colour":"red"}`, 400, "colour"},
		{"PATCH", "/api/boards/none", `{"name":"x"}`, 404, nil},
		{"POST", "/api/boards/none/switch", "", 404, nil},
	} {
		w := ask(h, c.method, c.path, c.body)
		inner, _ := decoded(t, w)["error"].(map[string]any)
		if w.Code != c.status || inner["message"] == "" || inner["param"] != c.param {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, w.Code, w.Body)
		}
	}
	card := wants(t, h, "GET", task, "", http.StatusOK)
	if events, _ := card["events"].([]any); len(events) != 4 { // created, and the refusals that leave one
		t.Errorf("%d events: %v", len(events), events)
	}
	if len(dispatch.woken) != woken {
		t.Errorf("woken %d times by nothing", len(dispatch.woken)-woken)
	}
}

// Nobody waits for a tick because somebody changed a card over HTTP.
func TestEveryChangeWakesTheDispatcher(t *testing.T) {
	h, id, dispatch := board(t)
	task := "/api/boards/plans/tasks/" + id
	for _, c := range [][3]string{
		{"POST", task + "/block", `{"reason":"r"}`},
		{"POST", task + "/unblock", ""},
		{"PATCH", task, `{"priority":3}`},
		{"POST", task + "/comments", `{"body":"well"}`},
		{"POST", task + "/complete", `{"summary":"s"}`},
		{"POST", task + "/archive", ""},
		{"POST", task + "/purge", ""},
	} {
		before := len(dispatch.woken)
		if w := ask(h, c[0], c[1], c[2]); w.Code >= 300 || len(dispatch.woken) != before+1 {
			t.Errorf("%v: %d %s, woken %d times", c, w.Code, w.Body, len(dispatch.woken)-before)
		}
	}
}

// Of many cards each is changed by itself, and for each it is said what became of it. The dispatcher hears of it.
func TestBulkSaysWhatBecameOfEachCard(t *testing.T) {
	h, first, dispatch := board(t)
	second := newCard(t, h, `{"title":"second"}`)
	woken := len(dispatch.woken)
	body := fmt.Sprintf(`{"ids":["%s","t_none","%s"],"status":"done","summary":"all of it"}`, first, second)
	results, _ := wants(t, h, "POST", "/api/boards/plans/tasks/bulk", body, http.StatusOK)["results"].([]any)
	if len(results) != 3 || len(dispatch.woken) != woken+1 {
		t.Fatalf("%v", results)
	}
	for i, want := range []bool{true, false, true} {
		if r, _ := results[i].(map[string]any); r["ok"] != want || (r["error"] == nil) != want {
			t.Errorf("%d: %v", i, r)
		}
	}
	list, _ := wants(t, h, "GET", "/api/boards/plans/tasks?status=done&sort=title", "", http.StatusOK)["tasks"].([]any)
	if len(list) != 2 {
		t.Errorf("%v", list)
	}
}

func TestABoardIsShownInColumns(t *testing.T) {
	h, id, _ := board(t)
	wants(t, h, "POST", "/api/boards/plans/tasks/"+id+"/comments", `{"body":"well"}`, http.StatusCreated)
	all := wants(t, h, "GET", "/api/boards/plans/columns", "", http.StatusOK)
	columns, _ := all["columns"].([]any)
	if len(columns) != 8 {
		t.Fatalf("%v", all)
	}
	ready, _ := columns[3].(map[string]any)
	cards, _ := ready["tasks"].([]any)
	if ready["name"] != "ready" || len(cards) != 1 {
		t.Fatalf("%v", ready)
	}
	card, _ := cards[0].(map[string]any)
	for _, key := range []string{"id", "title", "age", "latest_summary", "link_counts", "comment_count", "progress", "diagnostics", "warnings", "claim_lock"} {
		if _, there := card[key]; !there {
			t.Errorf("a card has no %s", key)
		}
	}
	flow := wants(t, h, "GET", "/api/boards/plans/workflow", "", http.StatusOK)
	moves, _ := flow["moves"].(map[string]any)
	if len(moves) != len(kanban.Statuses()) || strings.Contains(fmt.Sprint(moves), "running running") {
		t.Errorf("%v", flow)
	}
	for from, list := range moves {
		if strings.Contains(fmt.Sprint(list), "running") {
			t.Errorf("a person may move a card from %s to running", from)
		}
	}
	wants(t, h, "PATCH", "/api/boards/plans", `{"name":"Plans of ours","color":"red"}`, http.StatusOK)
	wants(t, h, "POST", "/api/boards/plans/switch", "", http.StatusOK)
	boards := wants(t, h, "GET", "/api/boards", "", http.StatusOK)
	if list, _ := boards["boards"].([]any); boards["current"] != "plans" || !strings.Contains(fmt.Sprint(list), "Plans of ours") || !strings.Contains(fmt.Sprint(list), "total:1") {
		t.Errorf("%v", boards)
	}
}
