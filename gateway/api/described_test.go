package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/api/openapi/conform"
)

// describing is the description of the API, read.
var describing = sync.OnceValue(func() *conform.Checker {
	document, err := Options{Version: "test"}.description()()
	if err != nil {
		panic(err)
	}
	raw, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	checker, err := conform.New(raw)
	if err != nil {
		panic(err)
	}
	return checker
})

// undescribed is what the tests of this package were answered otherwise than the description tells.
var undescribed struct {
	sync.Mutex
	list []string
}

// asDescribed holds every answer of a handler against the description. What differs makes the whole run fail.
func asDescribed(h http.Handler) http.Handler {
	recorder := conform.Recorder{Handler: h, See: func(r *http.Request, status int, header http.Header, body []byte, whole bool) {
		if r.Method == http.MethodHead || r.Method == http.MethodOptions || !whole && header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			return
		}
		if err := describing().Answer(r.Method, r.URL.Path, status, header, body); err != nil {
			undescribed.Lock()
			defer undescribed.Unlock()
			undescribed.list = append(undescribed.list, err.Error())
		}
	}}
	return recordedRoutes{recorder, h.(chi.Routes)}
}

// recordedRoutes can be walked as what it records can.
type recordedRoutes struct {
	conform.Recorder
	walked
}

// walked is chi.Routes by a name that hides none of its methods.
type walked = chi.Routes

// tellUndescribed reports whether there was nothing to tell.
func tellUndescribed() bool {
	undescribed.Lock()
	defer undescribed.Unlock()
	told := map[string]bool{}
	for _, line := range undescribed.list {
		if what, _, _ := strings.Cut(line, " in "); !told[what] {
			told[what] = true
			fmt.Fprintln(os.Stderr, "not as described:", line)
		}
	}
	return len(undescribed.list) == 0
}
