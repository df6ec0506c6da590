package config

import (
	"fmt"
	"iter"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// setting is one leaf of the struct: its key in full, where it lives and its tags.
type setting struct {
	key   string
	value reflect.Value
	tag   reflect.StructTag
}

// settings walks the leaves of a struct in the order of its fields. Lanes are leaves of their own, by name.
func settings(root any) iter.Seq[setting] {
	return func(yield func(setting) bool) { walk("", reflect.ValueOf(root).Elem(), yield) }
}

func walk(prefix string, v reflect.Value, yield func(setting) bool) bool {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name := field.Tag.Get("yaml")
		if name == "-" {
			continue
		}
		switch key := prefix + name; {
		case isSection(field.Type):
			if !walk(key+".", value, yield) {
				return false
			}
		case isNamed(field.Type):
			if !walkNamed(key+".", value, yield) {
				return false
			}
		case isListed(field.Type):
			for i := range value.Len() {
				if !walk(fmt.Sprintf("%s[%d].", key, i), value.Index(i), yield) {
					return false
				}
			}
		case !yield(setting{key, value, field.Tag}):
			return false
		}
	}
	return true
}

// walkNamed visits a map of structs. Map values cannot be set in place, so a copy is shown: callers that write
// go through the decoder, which stores the whole entry.
func walkNamed(prefix string, m reflect.Value, yield func(setting) bool) bool {
	for _, name := range sortedKeys(m) {
		entry := reflect.New(m.Type().Elem()).Elem()
		entry.Set(m.MapIndex(reflect.ValueOf(name)))
		if !walk(prefix+name+".", entry, yield) {
			return false
		}
	}
	return true
}

func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct }

func isNamed(t reflect.Type) bool {
	return t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct
}

// isListed is a list of sections, in an order that means something; their keys are "fallbacks[0].name".
func isListed(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func sortedKeys(m reflect.Value) []string {
	names := make([]string, 0, m.Len())
	for _, k := range m.MapKeys() {
		names = append(names, k.String())
	}
	sort.Strings(names)
	return names
}

// applyDefaults writes the defaults of the tags into a struct. A default that does not parse is a bug that
// the tests of this package find, so it panics.
func applyDefaults(root any) {
	for s := range settings(root) {
		text, ok := s.tag.Lookup("default")
		if !ok {
			continue
		}
		if err := parse(s.value, text, plainUnit); err != nil {
			panic(fmt.Sprintf("default of %s: %v", s.key, err))
		}
	}
}

// unit is how a bare text is read: most values speak for themselves, some variables count seconds.
type unit int

const (
	plainUnit unit = iota
	inSeconds
	inMilliseconds
	asSwitch
)

// parse writes a text into a leaf. Its errors complete the sentence "KEY …" and never quote the text, which
// may be a secret in the wrong place.
func parse(v reflect.Value, text string, u unit) error {
	switch {
	case v.Type() == durationType:
		return parseDuration(v, text, u)
	case v.Kind() == reflect.String:
		v.SetString(text)
		return nil
	case v.Kind() == reflect.Bool:
		return parseBool(v, text, u)
	case v.CanFloat():
		return parseFraction(v, text)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("must be a whole number")
		}
		v.SetInt(n)
		return nil
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf(splitList(text)))
		return nil
	}
	return fmt.Errorf("can be set in the file only")
}

func parseDuration(v reflect.Value, text string, u unit) error {
	if u == plainUnit {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("must be a duration with a unit, such as 30s, 5m or 4h")
		}
		v.SetInt(int64(d))
		return nil
	}
	scale, word := time.Second, "seconds"
	if u == inMilliseconds {
		scale, word = time.Millisecond, "milliseconds"
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n > int64(maxDuration/scale) {
		return fmt.Errorf("must be a whole number of %s, zero or more", word)
	}
	v.SetInt(n * int64(scale))
	return nil
}

func parseFraction(v reflect.Value, text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return fmt.Errorf("must be a number such as 0.5")
	}
	v.SetFloat(n)
	return nil
}

// maxDuration bounds every duration to a hundred years, far from any overflow in sums with the clock.
const maxDuration = 100 * 365 * 24 * time.Hour

func parseBool(v reflect.Value, text string, u unit) error {
	words := map[string]bool{"true": true, "false": false}
	want := "must be true or false"
	if u == asSwitch {
		words = map[string]bool{
			"1": true, "true": true, "yes": true, "on": true, "0": false, "false": false, "no": false, "off": false,
		}
		want = "must be 1, true, yes, on, 0, false, no or off"
	}
	b, ok := words[strings.ToLower(strings.TrimSpace(text))]
	if !ok {
		return fmt.Errorf("%s", want)
	}
	v.SetBool(b)
	return nil
}

func splitList(text string) []string {
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// render gives a leaf as it would be written in the file.
func render(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return shortDuration(x)
	case string:
		return x
	case []string:
		return renderList(x)
	case map[string]string:
		return renderMap(x)
	case map[string]int:
		return renderNumbers(x)
	case map[string]float64:
		return renderNumbers(x)
	}
	return fmt.Sprint(v.Interface())
}

// shortDuration writes 4h instead of 4h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func renderList(list []string) string {
	quoted := make([]string, len(list))
	for i, word := range list {
		quoted[i] = strconv.Quote(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func renderNumbers[T int | float64](m map[string]T) string {
	var words []string
	for _, name := range sortedKeys(reflect.ValueOf(m)) {
		words = append(words, fmt.Sprintf("%s: %v", name, m[name]))
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// renderMap hides the values of variables that look like secrets by their names.
func renderMap(m map[string]string) string {
	var words []string
	for _, name := range sortedKeys(reflect.ValueOf(m)) {
		value := strconv.Quote(m[name])
		if looksSecret(name) {
			value = redacted
		}
		words = append(words, name+": "+value)
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// LooksSecret reports a name of a variable or a header whose value is not for everybody's eyes.
func LooksSecret(name string) bool { return looksSecret(name) }

func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTHORIZATION", "COOKIE"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// Defaults gives every setting that has a name of its own, with its default.
func Defaults() map[string]Origin {
	l := &loader{Loaded: Loaded{Origins: map[string]Origin{}}}
	l.defaults()
	return l.Origins
}
