package kanban

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Meta is what people say about a board.
type Meta struct {
	Name           string
	Description    string
	Icon           string
	Color          string
	DefaultWorkdir string
	ProjectID      string
}

// MetaChange changes a board's description: nil leaves a key alone, a pointer to "" clears it.
type MetaChange struct {
	Name, Description, Icon, Color, DefaultWorkdir, ProjectID *string
	Archived                                                  *bool
	MaxInProgress                                             *int // 0 clears
}

// boardDoc is board.json with its keys in the order they were found, so that keys of other programs survive a rewrite.
type boardDoc struct {
	keys   []string
	values map[string]json.RawMessage
}

// A board is its owner's alone, as the home is, also below a shared root.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Create makes a board: its directory and its board.json. The file itself is created by Open with Create. A board is there
// once its file has content: one that was begun and has none yet is finished, and what its board.json says is kept. Where a
// file got lost, Create refuses as Open does, before it writes anything.
func (r *Root) Create(slug Slug, meta Meta) (Info, error) {
	slug, err := ParseSlug(string(slug))
	if err != nil {
		return Info{}, err
	}
	path := r.DBPath(slug)
	if err := sqlite.Vacant(path, "board "+string(slug)); problem.Is(err, problem.Conflict) {
		return Info{}, existingBoard(slug, path)
	} else if err != nil {
		return Info{}, explain(slug, path, err)
	}
	if err := r.describe(slug, meta); err != nil {
		return Info{}, diskProblem(boardThing(slug, path), "cannot be created", "no board was made", err)
	}
	return r.info(slug), nil
}

func (r *Root) describe(slug Slug, meta Meta) error {
	if err := r.fs.MkdirAll(boardDir(slug), dirMode); err != nil {
		return err
	}
	doc, err := r.readDoc(slug)
	if errors.Is(err, fs.ErrNotExist) {
		doc, err = newBoardDoc(slug, time.Now().Unix()), nil
	}
	if err != nil {
		return unreadableDoc(slug, err)
	}
	doc.apply(MetaChange{
		Name: opt(meta.Name), Description: opt(meta.Description), Icon: opt(meta.Icon), Color: opt(meta.Color),
		DefaultWorkdir: opt(meta.DefaultWorkdir), ProjectID: opt(meta.ProjectID),
	})
	return r.writeDoc(slug, doc)
}

func unreadableDoc(slug Slug, err error) error {
	return &problem.Error{
		Kind: problem.Damaged, Thing: "board.json of board " + string(slug), What: "cannot be read", Fate: unchanged,
		Remedy: "correct it, or move it away", Err: err,
	}
}

// Update rewrites board.json; keys it does not know stay. A change of nothing is refused.
func (r *Root) Update(slug Slug, change MetaChange) (Info, error) {
	if change == (MetaChange{}) {
		return Info{}, invalid("the change of board "+quote(string(slug)), "changes nothing", "name a field that is to be changed")
	}
	if change.MaxInProgress != nil && *change.MaxInProgress < 0 {
		return Info{}, invalidField("max_in_progress", "max_in_progress of board "+string(slug), "is negative", "0 takes the limit away")
	}
	info, err := r.Lookup(slug)
	if err != nil {
		return Info{}, err
	}
	doc, err := r.readDoc(slug)
	if errors.Is(err, fs.ErrNotExist) {
		doc = newBoardDoc(slug, time.Now().Unix())
	} else if err != nil {
		return Info{}, unreadableDoc(slug, err)
	}
	doc.apply(change)
	err = r.fs.MkdirAll(boardDir(slug), dirMode)
	if err == nil {
		err = r.writeDoc(slug, doc)
	}
	if err != nil {
		return Info{}, diskProblem(boardThing(slug, info.Path), "cannot be described anew", unchanged, err)
	}
	return r.info(slug), nil
}

func newBoardDoc(slug Slug, now int64) *boardDoc {
	d := &boardDoc{values: map[string]json.RawMessage{}}
	d.set("slug", string(slug))
	d.set("name", slug.title())
	for _, k := range []string{"description", "icon", "color"} {
		d.set(k, "")
	}
	d.set("default_workdir", nil)
	d.set("project_id", nil)
	d.set("created_at", now)
	d.set("archived", false)
	return d
}

func (d *boardDoc) set(key string, v any) {
	text, err := appendJSON(nil, v, 0)
	if err != nil {
		return // only strings, numbers and booleans come here
	}
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = text
}

func (d *boardDoc) apply(c MetaChange) {
	for key, v := range map[string]*string{"name": c.Name, "description": c.Description, "icon": c.Icon, "color": c.Color} {
		if v != nil {
			d.set(key, *v)
		}
	}
	for key, v := range map[string]*string{"default_workdir": c.DefaultWorkdir, "project_id": c.ProjectID} {
		switch {
		case v == nil:
		case *v == "":
			d.set(key, nil)
		default:
			d.set(key, *v)
		}
	}
	if c.Archived != nil {
		d.set("archived", *c.Archived)
	}
	if c.MaxInProgress != nil {
		d.set("max_in_progress", int64(max(0, *c.MaxInProgress)))
	}
}

// fill copies what can be read; a key of the wrong type is no error, as it is none for Hermes.
func (d *boardDoc) fill(info *Info) {
	for key, dest := range map[string]any{
		"name": &info.Name, "description": &info.Description, "icon": &info.Icon, "color": &info.Color, "default_workdir": &info.DefaultWorkdir,
		"project_id": &info.ProjectID, "created_at": &info.CreatedAt, "archived": &info.Archived,
		"max_in_progress": &info.MaxInProgress,
	} {
		if raw, ok := d.values[key]; ok {
			_ = json.Unmarshal(raw, dest)
		}
	}
	if info.Name == "" {
		info.Name = info.Slug.title()
	}
}

const maxBoardJSON = 1 << 20

func (r *Root) readDoc(slug Slug) (*boardDoc, error) {
	f, err := r.fs.OpenFile(filepath.Join(boardDir(slug), "board.json"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if isNotDir(err) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxBoardJSON {
		return nil, errors.New("is not a small regular file")
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(f); err != nil {
		return nil, err
	}
	return parseBoardDoc(text.Bytes())
}

func parseBoardDoc(text []byte) (*boardDoc, error) {
	d := &boardDoc{values: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		if _, ok := d.values[key]; !ok {
			d.keys = append(d.keys, key)
		}
		d.values[key] = raw
	}
	_, err := dec.Token()
	return d, err
}

// text is the document with two spaces of indent and a final newline; the slug is the directory's name whatever was in it,
// and db_path is never stored.
func (d *boardDoc) text(slug Slug) ([]byte, error) {
	d.set("slug", string(slug))
	b := []byte{'{'}
	for _, k := range d.keys {
		if k == "db_path" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(appendJSONString(b, k), ':'), d.values[k]...)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append(b, '}'), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (r *Root) writeDoc(slug Slug, d *boardDoc) error {
	text, err := d.text(slug)
	if err != nil {
		return err
	}
	return r.writeFile(filepath.Join(boardDir(slug), "board.json"), text)
}

// writeFile replaces a file so that a reader or a crash sees the old text or the new one: temp file in the same directory,
// fsync, rename, fsync of the directory. A file that is there keeps its permissions.
func (r *Root) writeFile(name string, text []byte) (err error) {
	mode := fs.FileMode(fileMode)
	if old, err := r.fs.Stat(name); err == nil {
		mode = old.Mode().Perm()
	}
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text())
	f, err := r.fs.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = r.fs.Remove(temp)
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Chmod(mode)
	}
	if serr := f.Sync(); err == nil {
		err = serr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = r.fs.Rename(temp, name)
	}
	if err == nil {
		err = r.syncDir(filepath.Dir(name))
	}
	return err
}

func (r *Root) syncDir(name string) error {
	dir, err := r.fs.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
