package hermeshome

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"

	"gatewayd/config"
)

// candidate is one setting of Hermes and what it would be here.
type candidate struct {
	from   string
	to     string // key of ours; "" with a why
	value  any
	why    string // it is not brought: why
	refuse bool   // and a rule of this home says so
	keys   map[string]string
	done   bool // to says where it went, together with another
}

// moveSettings brings config.yaml and .env: they belong together, for a setting names its key.
func (m *move) moveSettings(context.Context) error {
	tree, err := m.readSettings()
	if err != nil {
		m.report.settle("file", "config.yaml", Failed, err.Error(), "")
	}
	t := &translation{tree: tree, used: map[string]bool{}}
	t.all()
	keys := m.readKeys(t.used)
	list, err := m.sift(t.list, keys)
	if err != nil {
		return err
	}
	for _, c := range list {
		for _, name := range slices.Sorted(maps.Keys(c.keys)) {
			keys.add(name, c.keys[name])
		}
	}
	if err := m.store(keys); err != nil {
		return err
	}
	return m.write(list)
}

func (m *move) readSettings() (map[string]any, error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, "config.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var tree map[string]any
	if err == nil {
		err = yaml.Unmarshal(text, &tree)
	}
	if err != nil {
		return nil, errors.New("it cannot be read as YAML") // the parser's words quote the file, which may hold keys
	}
	m.report.unfold("file", "config.yaml")
	return tree, nil
}

// sift accounts for what is not brought, and asks this program's own rules about the rest, one after the other.
func (m *move) sift(all []candidate, keys keyring) (list []candidate, err error) {
	trial, err := newTrial(m.passing(), keys)
	if err != nil {
		return nil, err
	}
	defer trial.close()
	taken := map[string]string{}
	for _, c := range all {
		before, twice := taken[c.to]
		switch {
		case c.why != "" && c.refuse:
			m.report.settle("setting", c.from, Refused, c.why, "")
		case c.why != "":
			m.report.settle("setting", c.from, Skipped, c.why, "")
		case c.done && taken[c.to] == "":
			m.report.settle("setting", c.from, Skipped, "what it belongs to was not brought", "")
		case c.done:
			list = append(list, c)
		case twice:
			m.report.settle("setting", c.from, Skipped, before+" says the same already", "")
		default:
			if why := trial.admit(c); why != "" {
				m.report.settle("setting", c.from, Refused, why, "")
				continue
			}
			taken[c.to], list = c.from, append(list, c)
		}
	}
	return list, nil
}

// write puts the settings into a new config.yaml, or beside one that says something into a proposal.
func (m *move) write(list []candidate) error {
	missing := list[:0:0]
	wanted, err := loadedOf(m.passing(), list)
	if err != nil {
		return err
	}
	for _, c := range list {
		if m.inForce(wanted, c.to) {
			m.report.settle("setting", c.from, Present, "", c.to)
		} else {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if m.own() {
		return m.propose(missing)
	}
	path := filepath.Join(m.Home.Home, "config.yaml")
	if !m.DryRun {
		if err := m.writeFirst(path, list); err != nil {
			return err
		}
	}
	for _, c := range missing {
		m.report.settle("setting", c.from, Imported, "", c.to)
	}
	return nil
}

// own reports a configuration in which somebody set something.
func (m *move) own() bool {
	for _, o := range m.Home.Origins {
		if o.Source == config.FromFile {
			return true
		}
	}
	return false
}

// inForce reports a setting that is as wanted already, all of it where it has parts.
func (m *move) inForce(wanted config.Loaded, key string) bool {
	found := false
	for name, o := range wanted.Origins {
		if name != key && !strings.HasPrefix(name, key+".") && !strings.HasPrefix(name, key+"[") {
			continue
		}
		found = true
		if have, there := m.Home.Origins[name]; !there || have.Value != o.Value || have.Source == config.FromDefault && o.Source != config.FromDefault {
			return false
		}
	}
	return found
}

// writeFirst writes a config.yaml in which nobody set anything yet. One that is there, with its comments, is kept beside it.
func (m *move) writeFirst(path string, list []candidate) error {
	aside := path + ".before-import"
	if err := os.Link(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	if err := config.WriteWhole(path, m.document(list)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// propose writes what is missing beside a configuration of somebody's own, which is never changed.
func (m *move) propose(missing []candidate) error {
	text := m.document(missing)
	path := filepath.Join(m.Home.Home, "config.from-hermes.yaml")
	for n := 2; ; n++ {
		old, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if string(old) == text {
			break
		}
		path = filepath.Join(m.Home.Home, fmt.Sprintf("config.from-hermes-%d.yaml", n))
	}
	if !m.DryRun {
		if err := config.WriteWhole(path, text); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	for _, c := range missing {
		m.report.settle("setting", c.from, Skipped, "config.yaml has settings of its own and was left as it is; the proposal has "+c.to, path)
	}
	return nil
}

func (m *move) document(list []candidate) string {
	return fmt.Sprintf("# Settings of Hermes in %s, brought by `gatewayd import hermes`.\n# `gatewayd config show` prints every setting and where it comes from.\n\n%s", m.Dir, render(list))
}

// render writes the settings as the file has them, in one order.
func render(list []candidate) string {
	root := map[string]any{}
	for _, c := range list {
		if !c.done {
			put(root, strings.Split(c.to, "."), c.value)
		}
	}
	text, err := yaml.Marshal(sorted(root))
	if err != nil || len(root) == 0 {
		return ""
	}
	return string(text)
}

func put(at map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := at[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[name] = below
		}
		at = below
	}
	at[path[len(path)-1]] = value
}

func sorted(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	var out yaml.MapSlice
	names := slices.Collect(maps.Keys(m))
	sort.Strings(names)
	for _, name := range names {
		out = append(out, yaml.MapItem{Key: name, Value: sorted(m[name])})
	}
	return out
}
