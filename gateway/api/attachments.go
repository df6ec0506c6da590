package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// fileRoutes are the files of cards.
func (s *server) fileRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/boards/{board}/tasks/{task}/attachments", s.handle(s.listAttachments))
	to.boards.Post("/api/boards/{board}/tasks/{task}/attachments", s.handle(s.attach))
	to.read.With(s.patientAnswer).Get("/api/boards/{board}/attachments/{attachment}", s.download)
	to.read.Head("/api/boards/{board}/attachments/{attachment}", s.download)
	to.boards.Delete("/api/boards/{board}/attachments/{attachment}", s.handle(s.removeAttachment))
}

func (s *server) listAttachments(r *http.Request) (answer, error) {
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		list, err := board.Attachments(r.Context(), chi.URLParam(r, "task"))
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"attachments": listOf(list)})
	})
}

// attach takes one file: the `file` part of a form, or the body as it is with its name in ?filename=.
func (s *server) attach(r *http.Request) (answer, error) {
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		file, body, err := s.upload(r)
		if err != nil {
			return answer{}, err
		}
		made, err := board.Attach(r.Context(), chi.URLParam(r, "task"), file, body)
		if err != nil {
			return answer{}, uploadRefusal(err)
		}
		s.wake(slug)
		return answer{http.StatusCreated, map[string]any{"attachment": made}}, nil
	})
}

// formOverhead is what a form may have around its file.
const formOverhead = 1 << 20

// upload finds the file in a request and what is said of it.
func (s *server) upload(r *http.Request) (kanban.NewAttachment, io.Reader, error) {
	if r.ContentLength > kanban.MaxAttachment+formOverhead {
		return kanban.NewAttachment{}, nil, errFileTooLarge()
	}
	body := s.patient(r, http.MaxBytesReader(nil, r.Body, kanban.MaxAttachment+formOverhead))
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		q := newQuery(r)
		if q.text("filename") == "" {
			return kanban.NewAttachment{}, nil, errField("filename", "is missing; send a form with a part `file`, or the bytes with ?filename=")
		}
		return kanban.NewAttachment{Filename: q.text("filename"), ContentType: kind, By: orDefault(q.text("uploaded_by"), "api")}, body, nil
	}
	return formFile(multipart.NewReader(body, params["boundary"]))
}

// formFile reads a form up to its file, which is not kept in memory; who sends it comes before it.
func formFile(form *multipart.Reader) (kanban.NewAttachment, io.Reader, error) {
	file := kanban.NewAttachment{By: "api"}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return file, nil, errField("file", "is missing")
		}
		if err != nil {
			return file, nil, uploadRefusal(fmt.Errorf("%w: %w", errForm, err))
		}
		switch part.FormName() {
		case "file":
			file.Filename, file.ContentType = part.FileName(), part.Header.Get("Content-Type")
			return file, part, nil
		case "uploaded_by":
			text, err := io.ReadAll(io.LimitReader(part, 1<<10))
			if err != nil {
				return file, nil, uploadRefusal(err)
			}
			file.By = orDefault(strings.TrimSpace(string(text)), file.By)
		}
	}
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

var errForm = errors.New("the form cannot be read")

// uploadRefusal gives an upload's trouble its status.
func uploadRefusal(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large || errors.Is(err, kanban.ErrTooLarge) {
		return errFileTooLarge()
	}
	if errors.Is(err, errForm) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &refusal{status: http.StatusBadRequest, code: "body_unreadable", message: "the body ended before its end, or is no form; nothing of it was taken", cause: err}
	}
	return err
}

func errFileTooLarge() error {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: "file_too_large", message: "the file is larger than 25 MiB; nothing of it was taken"}
}

// patient gives a body as long as it takes while something of it arrives: the bound is on silence, not on the whole.
func (s *server) patient(r *http.Request, body io.Reader) io.Reader {
	control, _ := r.Context().Value(writerKey{}).(*http.ResponseController)
	return patientBody{body, control, s.BodyTime}
}

type writerKey struct{}

type patientBody struct {
	io.Reader
	control *http.ResponseController
	silence time.Duration
}

func (p patientBody) Read(b []byte) (int, error) {
	if p.control != nil {
		_ = p.control.SetReadDeadline(time.Now().Add(p.silence))
	}
	return p.Reader.Read(b)
}

// download sends a file as something to be saved: what people attach must not run in the page of this daemon.
func (s *server) download(w http.ResponseWriter, r *http.Request) {
	_, err := s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		id, err := attachmentID(r)
		if err != nil {
			return answer{}, err
		}
		a, f, err := board.OpenAttachment(r.Context(), id)
		if err != nil {
			return answer{}, err
		}
		defer f.Close()
		h := w.Header()
		h.Set("Content-Type", safeType(a.ContentType))
		h.Set("Content-Disposition", disposition(a.Filename))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		http.ServeContent(w, r, "", time.Unix(a.CreatedAt, 0), f)
		return answer{}, nil
	})
	if err != nil {
		s.fail(w, r, err)
	}
}

// safeType passes on a type that a browser does not run.
func safeType(kind string) string {
	const opaque = "application/octet-stream"
	parsed, params, err := mime.ParseMediaType(kind)
	switch {
	case err != nil, strings.Contains(parsed, "html"), strings.Contains(parsed, "xml"), strings.Contains(parsed, "svg"), strings.Contains(parsed, "script"):
		return opaque
	}
	return orDefault(mime.FormatMediaType(parsed, params), opaque)
}

// disposition names the file in the way of RFC 6266, which takes any name.
func disposition(name string) string {
	return orDefault(mime.FormatMediaType("attachment", map[string]string{"filename": name}), "attachment")
}

func attachmentID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(chi.URLParam(r, "attachment"), 10, 64)
	if err != nil || id <= 0 {
		return 0, errField("attachment", "must be the number of an attachment")
	}
	return id, nil
}

func (s *server) removeAttachment(r *http.Request) (answer, error) {
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		id, err := attachmentID(r)
		if err != nil {
			return answer{}, err
		}
		if err := board.RemoveAttachment(r.Context(), id, "api"); err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"ok": true, "id": id})
	})
}
