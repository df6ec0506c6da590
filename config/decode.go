package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// decode walks the syntax tree itself instead of unmarshalling: only so does every value keep its line, and
// every mistake in the file is reported at once, in our words.
func (l *loader) decode(text []byte) {
	text, bad := plainText(text)
	if bad != "" {
		l.refuse(l.Path, bad, "save it as UTF-8 text", nil)
		return
	}
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.refuseSyntax(err)
		return
	}
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 && file.Docs[0].Body != nil {
			l.refuse(l.at(doc.Body), "starts a second document", "keep all settings in one", nil)
			return
		}
		l.section("", doc.Body, reflect.ValueOf(&l.Config).Elem())
	}
}

// plainText strips the mark that some editors put before UTF-8, makes line ends one byte, and says what else is
// wrong with the bytes.
func plainText(text []byte) (clean []byte, bad string) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")):
		return nil, "is UTF-16"
	case bytes.IndexByte(text, 0) >= 0:
		return nil, "is not text: it holds zero bytes"
	case !utf8.Valid(text):
		return nil, "is not UTF-8"
	}
	// The parser counts a line's end of two bytes as two lines in some places.
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), ""
}

func (l *loader) refuseSyntax(err error) {
	place, what := l.Path, err.Error()
	var positioned yaml.Error
	if errors.As(err, &positioned) {
		what = positioned.GetMessage()
		if t := positioned.GetToken(); t != nil && t.Position != nil {
			place = fmt.Sprintf("%s:%d", l.Path, t.Position.Line)
		}
	}
	l.refuse(place, "is not valid YAML: "+what, "indent with spaces, two for each level, and quote text that holds ': ' or '#'", nil)
}

// at gives "path:line" of a node.
func (l *loader) at(node ast.Node) string {
	if t := node.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d", l.Path, t.Position.Line)
	}
	return l.Path
}

// section reads one mapping into one struct. prefix is "" or ends in a dot.
func (l *loader) section(prefix string, node ast.Node, v reflect.Value) {
	for name, entry := range l.entries(strings.TrimSuffix(prefix, "."), node) {
		field, ok := fieldNamed(v, name)
		if !ok {
			l.refuseUnknown(prefix, name, v.Type(), l.at(entry.Key))
			continue
		}
		switch key := prefix + name; {
		case isSection(field.Type()):
			l.section(key+".", entry.Value, field)
		case isNamed(field.Type()):
			l.named(key, entry.Value, field)
		case isListed(field.Type()):
			l.listed(key, entry.Value, field)
		default:
			l.leaf(key, entry.Value, field)
		}
	}
}

// entries gives the pairs of a mapping in order. An empty section is one, a repeated or unreadable key is refused.
func (l *loader) entries(key string, node ast.Node) func(func(string, *ast.MappingValueNode) bool) {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	case *ast.NullNode, nil:
	default:
		what := "must be a section: settings on lines of their own, indented"
		if key == "" {
			key, what = "the file", "must hold sections such as `model:` and `api:`"
		}
		l.refuse(l.at(node)+": "+key, what, "", nil)
	}
	return func(yield func(string, *ast.MappingValueNode) bool) {
		first := map[string]string{}
		for _, pair := range pairs {
			name, ok := keyText(pair.Key)
			switch before, twice := first[name]; {
			case !ok:
				l.refuse(l.at(pair.Key), "has a key that is not plain text", "write each key out; anchors and merges are not understood", nil)
			case twice:
				l.refuse(l.at(pair.Key)+": "+joinKey(key, name), "is given twice, first at "+before, "keep one of the two", nil)
			default:
				first[name] = l.at(pair.Key)
				if !yield(name, pair) {
					return
				}
			}
		}
	}
}

func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		return key.GetToken().Value, true
	}
	return "", false
}

func joinKey(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func fieldNamed(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("yaml"); tag == name && tag != "-" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// named reads a mapping of names to structs: the lanes.
func (l *loader) named(key string, node ast.Node, m reflect.Value) {
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	for name, entry := range l.entries(key, node) {
		item := reflect.New(m.Type().Elem())
		applyDefaults(item.Interface())
		prefix := key + "." + name + "."
		for s := range settings(item.Interface()) {
			l.Origins[prefix+s.key] = Origin{Value: render(s.value), Source: FromDefault, Place: l.at(entry.Key)}
		}
		l.section(prefix, entry.Value, item.Elem())
		m.SetMapIndex(reflect.ValueOf(name), item.Elem())
	}
}

// listed reads a list of structs: the fallbacks.
func (l *loader) listed(key string, node ast.Node, list reflect.Value) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		l.refuse(l.at(node)+": "+key, "must be a list: a line with \"- \" for each, its settings indented below", "", nil)
		return
	}
	list.Set(reflect.MakeSlice(list.Type(), 0, len(seq.Values)))
	for i, entry := range seq.Values {
		item := reflect.New(list.Type().Elem())
		applyDefaults(item.Interface())
		prefix := fmt.Sprintf("%s[%d].", key, i)
		for s := range settings(item.Interface()) {
			l.Origins[prefix+s.key] = Origin{Value: render(s.value), Source: FromDefault, Place: l.at(entry)}
		}
		l.section(prefix, entry, item.Elem())
		list.Set(reflect.Append(list, item.Elem()))
	}
}

func (l *loader) leaf(key string, node ast.Node, v reflect.Value) {
	if err := scalar(node, v); err != nil {
		l.refuse(l.at(node)+": "+key, err.Error(), "", nil)
		return
	}
	l.set(key, Origin{Value: render(v), Source: FromFile, Place: l.at(node)})
}

// scalar writes a node into a leaf; its errors complete the sentence "KEY …" and do not quote the value.
func scalar(node ast.Node, v reflect.Value) error {
	switch node.(type) {
	case *ast.NullNode, nil:
		return errors.New("has no value: leave the line out to have the default")
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return errors.New("uses an anchor, alias or tag, which is not understood here: write the value out")
	}
	switch {
	case v.Type() == durationType:
		return scalarDuration(node, v)
	case v.Kind() == reflect.String:
		text, ok := textOf(node)
		if !ok {
			return errors.New("must be text: put it in quotes")
		}
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			return errors.New("must be true or false, without quotes")
		}
		v.SetBool(b.Value)
	case v.CanInt():
		return scalarInt(node, v)
	case v.CanFloat():
		return scalarFraction(node, v)
	case v.Kind() == reflect.Slice:
		return scalarList(node, v)
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Int:
		return scalarCounts(node, v)
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Float64:
		return scalarFractions(node, v)
	case v.Kind() == reflect.Map:
		return scalarMap(node, v)
	}
	return nil
}

func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// wordOf takes numbers and booleans as they stand: `argv: [sleep, 5]` means the word "5".
func wordOf(node ast.Node) (string, bool) {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	}
	return textOf(node)
}

func scalarDuration(node ast.Node, v reflect.Value) error {
	if n, ok := node.(*ast.IntegerNode); ok && n.GetToken().Value == "0" {
		v.SetInt(0)
		return nil
	}
	if text, ok := textOf(node); ok {
		return parseDuration(v, text, plainUnit)
	}
	if word, ok := wordOf(node); ok {
		return fmt.Errorf("must be a duration with a unit: write %ss if seconds are meant", word)
	}
	return errors.New("must be a duration with a unit, such as 30s, 5m or 4h")
}

func scalarInt(node ast.Node, v reflect.Value) error {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return errors.New("must be a whole number, without quotes")
	}
	switch x := n.Value.(type) {
	case int64:
		if v.OverflowInt(x) {
			return errors.New("is too large")
		}
		v.SetInt(x)
	case uint64:
		if x > math.MaxInt64 || v.OverflowInt(int64(x)) {
			return errors.New("is too large")
		}
		v.SetInt(int64(x))
	default:
		return errors.New("is too large")
	}
	return nil
}

func scalarList(node ast.Node, v reflect.Value) error {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		return errors.New("must be a list: [one, two] or a line with \"- \" for each")
	}
	list := make([]string, 0, len(seq.Values))
	for i, item := range seq.Values {
		word, ok := wordOf(item)
		if !ok {
			return fmt.Errorf("must be a list of words: item %d is not one", i+1)
		}
		list = append(list, word)
	}
	v.Set(reflect.ValueOf(list))
	return nil
}

func scalarMap(node ast.Node, v reflect.Value) error {
	m := map[string]string{}
	err := eachPair(node, func(name string, value ast.Node) error {
		word, plain := wordOf(value)
		if !plain {
			return fmt.Errorf("must be names with plain values: %q is not", name)
		}
		m[name] = word
		return nil
	})
	v.Set(reflect.ValueOf(m))
	return err
}

func scalarCounts(node ast.Node, v reflect.Value) error {
	m := map[string]int{}
	err := eachPair(node, func(name string, value ast.Node) error {
		count := reflect.New(v.Type().Elem()).Elem()
		if err := scalarInt(value, count); err != nil {
			return fmt.Errorf("must be names with counts: %q %w", name, err)
		}
		m[name] = int(count.Int())
		return nil
	})
	v.Set(reflect.ValueOf(m))
	return err
}

func scalarFraction(node ast.Node, v reflect.Value) error {
	switch node.(type) {
	case *ast.FloatNode, *ast.IntegerNode:
		return parseFraction(v, node.GetToken().Value)
	}
	return errors.New("must be a number such as 0.5, without quotes")
}

func scalarFractions(node ast.Node, v reflect.Value) error {
	m := map[string]float64{}
	err := eachPair(node, func(name string, value ast.Node) error {
		fraction := reflect.New(v.Type().Elem()).Elem()
		if err := scalarFraction(value, fraction); err != nil {
			return fmt.Errorf("must be names with numbers: %q %w", name, err)
		}
		m[name] = fraction.Float()
		return nil
	})
	v.Set(reflect.ValueOf(m))
	return err
}

// eachPair gives the pairs of a mapping, each name once.
func eachPair(node ast.Node, take func(name string, value ast.Node) error) error {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return errors.New("must be names with values, one `NAME: value` on each line")
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, ok := keyText(pair.Key)
		switch {
		case !ok:
			return fmt.Errorf("must be names with plain values: %q is not", name)
		case seen[name]:
			return fmt.Errorf("gives %s twice", name)
		}
		seen[name] = true
		if err := take(name, pair.Value); err != nil {
			return err
		}
	}
	return nil
}
