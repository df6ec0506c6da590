package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
)

func TestHealthSaysWhoAnswersAndHowItIs(t *testing.T) {
	checks := []Check{{Name: "state.db", Status: "ok"}, {Name: "dispatcher", Status: "off", Reason: "kanban.dispatch is false"}}
	h, chat := plain(func(o *Options) {
		o.Started = time.Now().Add(-time.Hour)
		o.Checks = func(context.Context) []Check { return checks }
	})
	body := decoded(t, ask(h, "GET", "/health/detailed", ""))
	if body["status"] != "ok" || body["pid"] != 42.0 || body["version"] != "test" || body["uptime_seconds"].(float64) < 3599 || len(body["checks"].([]any)) != 2 {
		t.Errorf("%v", body)
	}
	checks = append(checks, Check{Name: "model", Status: "failed", Reason: "connection refused"})
	if w := ask(h, "GET", "/health/detailed", ""); w.Code != http.StatusOK || decoded(t, w)["status"] != "degraded" {
		t.Errorf("degraded: %d %s", w.Code, w.Body)
	}
	chat.status = gateway.Status{Draining: true}
	if w := ask(h, "GET", "/health", "", header("Authorization", "")); w.Code != http.StatusServiceUnavailable || decoded(t, w)["status"] != "draining" {
		t.Errorf("draining: %d %s", w.Code, w.Body)
	}
	if w := ask(h, "HEAD", "/health", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestTheModelIsTheAgent(t *testing.T) {
	h, _ := plain(func(o *Options) {
		o.Model = func() provider.Description {
			return provider.Description{Name: "qwen3", ContextLength: 4096, Offline: true}
		}
	})
	list := decoded(t, ask(h, "GET", "/v1/models", ""))
	data := list["data"].([]any)
	if model := data[0].(map[string]any); list["object"] != "list" || len(data) != 1 || model["id"] != "gatewayd" || model["backend"] != "qwen3" || model["context_length"] != 4096.0 {
		t.Errorf("%v", list)
	}
	if one := decoded(t, ask(h, "GET", "/v1/models/gatewayd", "")); one["id"] != "gatewayd" {
		t.Errorf("%v", one)
	}
}

func TestStatusIsWhatTheDaemonSays(t *testing.T) {
	h, _ := plain(nil)
	if body := decoded(t, ask(h, "GET", "/api/status", "")); body["pid"] != 42.0 {
		t.Errorf("%v", body)
	}
	h, _ = plain(func(o *Options) { o.Status = func(context.Context) any { return map[string]string{"own": "words"} } })
	if body := decoded(t, ask(h, "GET", "/api/status", "")); body["own"] != "words" {
		t.Errorf("%v", body)
	}
}

func TestMetricsCountRoutesAndNotPaths(t *testing.T) {
	registry := prometheus.NewRegistry()
	h, _ := plain(func(o *Options) { o.Metrics = registry })
	ask(h, "GET", "/api/sessions/one", "")
	ask(h, "GET", "/api/sessions/two", "")
	ask(h, "GET", "/no/such/place", "")
	ask(h, "BREW", "/no/such/place", "")
	ask(h, "POST", "/v1/chat/completions", helloStream)
	w := ask(h, "GET", "/metrics", "")
	for _, want := range []string{
		`gatewayd_http_requests_total{method="GET",route="/api/sessions/{session}",status="404"} 2`,
		`gatewayd_http_requests_total{method="GET",route="none",status="404"} 1`,
		`gatewayd_http_requests_total{method="POST",route="/v1/chat/completions",status="200"} 1`,
		"gatewayd_http_streams 0",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("lacks %s:\n%s", want, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "such") || strings.Contains(w.Body.String(), "BREW") {
		t.Error("a client can make series")
	}
}
