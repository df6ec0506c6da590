package api

import (
	"net/http"
	"strings"
	"testing"

	"gatewayd/gateway/keys"
)

func TestKeysAreMadeListedRotatedAndRemovedOverTheAPI(t *testing.T) {
	h, store := paged(t)
	admin := header("Authorization", "Bearer "+newKey(t, store, "root", keys.Admin))
	w := with(h, "POST", "/api/keys", `{"name":"phone","scopes":["chat"],"expires_in":3600}`, admin)
	text, _ := decoded(t, w)["text"].(string)
	if w.Code != http.StatusCreated || text == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	phone := header("Authorization", "Bearer "+text)
	if w := with(h, "GET", "/v1/models", "", phone); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	refused(t, with(h, "GET", "/api/keys", "", phone), http.StatusForbidden, "insufficient_scope")
	if w := with(h, "GET", "/api/keys", "", admin); strings.Contains(w.Body.String(), text) || !strings.Contains(w.Body.String(), `"name":"phone"`) || strings.Contains(w.Body.String(), "sha256") {
		t.Errorf("%s", w.Body)
	}
	w = with(h, "POST", "/api/keys/phone/rotate", "", admin)
	again, _ := decoded(t, w)["text"].(string)
	refused(t, with(h, "GET", "/v1/models", "", phone), http.StatusUnauthorized, "invalid_api_key")
	phone = header("Authorization", "Bearer "+again)
	if w := with(h, "GET", "/v1/models", "", phone); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	if w := with(h, "DELETE", "/api/keys/phone", "", admin); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, with(h, "GET", "/v1/models", "", phone), http.StatusUnauthorized, "invalid_api_key")
	refused(t, with(h, "DELETE", "/api/keys/phone", "", admin), http.StatusNotFound, "not_found")
	for body, code := range map[string]string{
		`{"name":"root","scopes":["read"]}`: "conflict", `{"name":"x"}`: "invalid_request", `{"name":"x","scopes":["god"]}`: "invalid_request",
		`{"name":"x","scopes":["read"],"expires_in":0}`: "invalid_value", `{"name":"x","scopes":["read"],"expires_in":9223372036854775807}`: "invalid_value",
		`{"name":"x","scopes":"read"}`: "invalid_type", `{"name":"x","scopes":["read"],"key":"mine"}`: "unknown_field",
	} {
		w := with(h, "POST", "/api/keys", body, admin)
		if w.Code < 400 || !strings.Contains(w.Body.String(), `"`+code+`"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}
