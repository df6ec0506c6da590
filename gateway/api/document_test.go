package api

import (
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestTheDescriptionIsOpenAPI31ForAReaderThatIsNotOurs(t *testing.T) {
	h, _ := plain(nil)
	w := ask(h, "GET", "/openapi.json", "", func(r *http.Request) { r.Header.Del("Authorization") })
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	document, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if document.OpenAPI != "3.1.0" || document.Info.Version != "test" || document.Paths.Len() < 70 {
		t.Errorf("%s %s, %d paths", document.OpenAPI, document.Info.Version, document.Paths.Len())
	}
}
