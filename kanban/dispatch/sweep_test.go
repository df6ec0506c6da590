package dispatch

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gatewayd/kanban"
)

// scratch fills a card's workspace.
func (h *house) scratch(task string, bytes int) string {
	h.t.Helper()
	dir := h.root.WorkspaceDir(kanban.DefaultSlug, task)
	must(h.t, os.MkdirAll(filepath.Join(dir, "deep"), 0o700))
	must(h.t, os.WriteFile(filepath.Join(dir, "deep", "work"), make([]byte, bytes), 0o600))
	return dir
}

func vanished(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}

func payloadOfKind(t *testing.T, b *kanban.Board, task, kind string) map[string]any {
	t.Helper()
	events, err := b.TaskEvents(t.Context(), task)
	must(t, err)
	for _, e := range events {
		if e.Kind == kind {
			var p map[string]any
			must(t, json.Unmarshal(e.Payload, &p))
			return p
		}
	}
	return nil
}

func finish(t *testing.T, b *kanban.Board, task string) {
	t.Helper()
	must(t, b.Complete(t.Context(), task, kanban.Completion{Summary: "done"}))
}

func TestAWorkspaceStaysForOpenChildrenAndGoesWithTheLast(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	parent := card(t, b, "human")
	child := card(t, b, "human", func(n *kanban.NewTask) { n.Parents = []string{parent} })
	dir := h.scratch(parent, 10)
	d := h.dispatcher()
	finish(t, b, parent)
	for range 3 {
		_, err := d.Tick(t.Context())
		must(t, err)
	}
	if vanished(dir) {
		t.Fatal("the workspace went while a child may read it")
	}
	finish(t, b, child)
	tickUntil(t, d, "the workspace to go", func() bool { return vanished(dir) })
	if p := payloadOfKind(t, b, parent, "workspace_discarded_content"); p != nil {
		t.Errorf("ten bytes are told of: %v", p)
	}
}

func TestWhatGoesUndeclaredIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	task := card(t, b, "human")
	dir := h.scratch(task, 4096)
	must(t, os.WriteFile(filepath.Join(dir, "report"), bytes.Repeat([]byte("r"), 5000), 0o600))
	must(t, b.Complete(t.Context(), task, kanban.Completion{Summary: "done", Artifacts: []string{"report"}}))
	d := h.dispatcher()
	root := filepath.Dir(dir)
	tickUntil(t, d, "the workspace to go", func() bool { left, _ := os.ReadDir(root); return len(left) == 0 })
	p := payloadOfKind(t, b, task, "workspace_discarded_content")
	if p["path"] != dir || p["total_bytes"] != 4096.0 || p["file_count"] != 1.0 {
		t.Errorf("%v", p)
	}
	files, err := b.Attachments(t.Context(), task)
	if err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
}

func TestAKilledRemovalIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	task := card(t, b, "human")
	root := filepath.Dir(h.scratch(task, 10))
	aside := filepath.Join(root, ".gone-"+task+".ABC")
	must(t, os.Rename(filepath.Join(root, task), aside))
	finish(t, b, task)
	tickUntil(t, h.dispatcher(), "what was set aside to go", func() bool { return vanished(aside) })
}

func TestALinkInTheWorkspacesIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	linked, plain := card(t, b, "human"), card(t, b, "human")
	precious := filepath.Join(t.TempDir(), "src")
	must(t, os.MkdirAll(precious, 0o700))
	dir := h.scratch(plain, 10)
	link := h.root.WorkspaceDir(kanban.DefaultSlug, linked)
	must(t, os.Symlink(precious, link))
	finish(t, b, linked)
	finish(t, b, plain)
	tickUntil(t, h.dispatcher(), "the plain workspace to go", func() bool { return vanished(dir) })
	if vanished(precious) || vanished(link) {
		t.Error("the link was followed or removed")
	}
	if h.log.count("workspace of a finished card stays") != 1 {
		t.Errorf("it was not said once:\n%s", h.log.text())
	}
}

func TestTheFirstScratchWorkspaceOfARootIsExplained(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	first := card(t, b, "ok")
	d := h.dispatcher()
	done := func(task string) func() bool {
		return func() bool { c, err := b.Task(t.Context(), task); return err == nil && c.Status == kanban.StatusDone }
	}
	tickUntil(t, d, "the first card", done(first))
	second := card(t, b, "ok")
	tickUntil(t, d, "the second card", done(second))
	if payloadOfKind(t, b, first, "tip_scratch_workspace") == nil || payloadOfKind(t, b, second, "tip_scratch_workspace") != nil {
		t.Error("the tip was not given once, with the first card")
	}
	if vanished(filepath.Join(h.dir, ".scratch_tip_shown")) {
		t.Error("there is no sentinel")
	}
}
