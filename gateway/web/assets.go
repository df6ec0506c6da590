package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/go-chi/chi/v5"
)

//go:embed static
var staticFiles embed.FS

// assets are the static files, each with the hash of its content: a new build's files have new addresses, so a browser may keep one for
// ever and never shows a page with yesterday's style.
type assets struct{ files map[string]asset }

type asset struct {
	data       []byte
	kind, hash string
}

func readAssets() *assets {
	a := &assets{files: map[string]asset{}}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(staticFiles, "static/"+entry.Name())
		if err != nil {
			panic(err)
		}
		data = broken(entry.Name(), data)
		sum := sha256.Sum256(data)
		a.files[entry.Name()] = asset{data, mime.TypeByExtension(path.Ext(entry.Name())), hex.EncodeToString(sum[:8])}
	}
	return a
}

// url is where a file is fetched from.
func (a *assets) url(name string) string { return "/static/" + name + "?v=" + a.files[name].hash }

// serve answers GET /static/{file}.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	file, there := a.files[chi.URLParam(r, "file")]
	if !there {
		http.NotFound(w, r)
		return
	}
	h, tag := w.Header(), `"`+file.hash+`"`
	h.Set("Content-Type", file.kind)
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == file.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(file.data)))
	_, _ = w.Write(file.data)
}
