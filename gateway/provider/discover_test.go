package provider

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// silent accepts connections and never answers.
func silent(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String() + "/v1"
}

// stranger is some web server on a usual port.
func stranger(t *testing.T, status int, body string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

func TestDiscoverPrefersWhatIsConfigured(t *testing.T) {
	model, how := Discover(t.Context(), Options{BaseURL: "http://u:secret@model.example/v1", Name: "m"})
	if d := model.Describe(); d.Offline || d.Name != "m" || d.BaseURL != "http://model.example/v1" || d.Origin != "configured" || strings.Contains(how, "secret") {
		t.Errorf("%s: %+v", how, d)
	}
}

func TestDiscoverTakesALocalServerAndSaysHow(t *testing.T) {
	server := fakellm.New(t, fakellm.Text{Text: "here"})
	where := []place{{"stranger", stranger(t, 200, "<html>hello</html>")}, {"angry", stranger(t, 500, "{}")}, {"nobody", "http://127.0.0.1:1/v1"}, {"Fake", server.URL()}}
	model, how := discover(t.Context(), Options{Key: "sk-secret"}, where)
	d := model.Describe()
	if d.Offline || d.Name != fakellm.Model || d.Provider != "Fake" || d.ContextLength != fakellm.ContextLength || !strings.Contains(how, "Fake") || !strings.Contains(how, "its only one") {
		t.Fatalf("%s: %+v", how, d)
	}
	if got, err := model.Complete(bounded(t), ask, nil); err != nil || got.Text != "here" {
		t.Errorf("%+v, %v", got, err)
	}
	if key := server.Requests()[0].Key; key != "" {
		t.Errorf("the key %q was shown to a server that was only found", key)
	}
}

func TestDiscoverIsOfflineInTimeAndSaysWhy(t *testing.T) {
	where := []place{{"Silent", silent(t)}, {"Mute", silent(t)}, {"Deaf", silent(t)}}
	start := time.Now()
	model, how := discover(t.Context(), Options{}, where)
	if took := time.Since(start); took > 20*discoverBound {
		t.Errorf("took %s; the bound of all together is %s", took, discoverBound)
	}
	if !model.Describe().Offline || !strings.Contains(how, "model.base_url is not set") || model.Describe().Origin != how {
		t.Errorf("%s: %+v", how, model.Describe())
	}
	_, how = discover(t.Context(), Options{Name: "other"}, []place{{"Fake", fakellm.New(t).URL()}})
	if !strings.Contains(how, `has the model "other"`) {
		t.Errorf("a server without the wanted model: %s", how)
	}
}

func TestAModelIsFoundUnderTheNameThatIsUsual(t *testing.T) {
	for name, want := range map[string]bool{"llama3": true, "llama3:latest": true, "gemini-x": true, "models/gemini-x": true, "llama": false, "latest": false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"data":[{"id":"llama3:latest"},{"id":"models/gemini-x","context_length":9000}]}`)
		}))
		t.Cleanup(server.Close)
		got, err := Reach(t.Context(), Options{BaseURL: server.URL + "/v1", Name: name, Transport: &http.Transport{DisableKeepAlives: true}})
		if err != nil || got.Listed != want || strings.HasSuffix(name, "gemini-x") != (got.Window == 9000) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestTheListOfModelsIsReadLeniently(t *testing.T) {
	models, err := parseModels([]byte(`{"data":[{"id":"nomic-embed-text"},{"id":7},{"id":"a","max_model_len":"8192"},{"id":"b","meta":{"n_ctx":4096}}]}`))
	if err != nil || len(models) != 3 || models[1] != (listed{"a", 8192}) || models[2] != (listed{"b", 4096}) {
		t.Errorf("%+v, %v", models, err)
	}
	if chosen, ok := choose(models, ""); !ok || chosen.ID != "a" {
		t.Errorf("chose %+v", chosen)
	}
	if _, err := parseModels([]byte(`{"models":[]}`)); err == nil {
		t.Error("not a list of models, and taken for one")
	}
}
