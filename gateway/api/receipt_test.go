package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// What a client is told of a turn carries a receipt that the rows prove, whichever way it is told.
func TestEveryEndOfATurnCarriesAReceiptThatTheRowsProve(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"}, fakellm.Error{Status: 401})
	session := header(headerSession, "s1")
	whole := h.send(t, bounded(t), hello, session).Header.Get(headerReceipt)
	h.proves(t, whole, 2)

	raw, err := io.ReadAll(h.send(t, bounded(t), strings.Replace(hello, "{", `{"stream":true,`, 1), session).Body)
	if err != nil {
		t.Fatal(err)
	}
	var last struct {
		Gatewayd struct{ Receipt string }
	}
	for line := range strings.Lines(string(raw)) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok && strings.Contains(data, `"gatewayd"`) {
			if err := json.Unmarshal([]byte("{"+data), &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.proves(t, last.Gatewayd.Receipt, 2)

	all := heardAll(t, h.open(t, bounded(t), http.MethodPost, "/api/sessions/s1/messages", `{"text":"more","wait":true}`).Body)
	receipt, _ := all[len(all)-1].data["receipt"].(string)
	h.proves(t, receipt, 2)

	w := h.send(t, bounded(t), hello, session)
	if w.StatusCode != http.StatusBadGateway {
		t.Errorf("a model that refuses: %d", w.StatusCode)
	}
	h.proves(t, w.Header.Get(headerReceipt), 2)
}

func (h *house) proves(t *testing.T, receipt string, rows int) {
	t.Helper()
	r, err := sessiondb.ParseReceipt(receipt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.store.Check(t.Context(), r)
	if err != nil || !p.Proven || p.Rows != rows {
		t.Errorf("%q: %+v %v", receipt, p, err)
	}
}
