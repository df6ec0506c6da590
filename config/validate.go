package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settle computes what is not written anywhere: absolute paths and the model's key.
func (l *loader) settle() {
	l.settleRoot()
	l.Tools.Workdir, l.Tools.WriteRoot = l.absolute(l.Tools.Workdir), l.absolute(l.Tools.WriteRoot)
	l.Backup.Dir = l.absolute(l.Backup.Dir)
	l.API.TLSCert, l.API.TLSKey = l.absolute(l.API.TLSCert), l.absolute(l.API.TLSKey)
	for name, lane := range l.Kanban.Lanes {
		lane.Workdir = l.absolute(lane.Workdir)
		l.Kanban.Lanes[name] = lane
	}
	l.settleModel()
	l.settleAuxiliary()
	l.settleNotify()
	l.settleMCP()
}

// settleRoot puts the boards where the file says, else where the variable says, else into the home. It is the
// one setting whose variable is weaker than the file: the variable is shared with the Python original.
func (l *loader) settleRoot() {
	const key = "kanban.root"
	if l.Kanban.Root == "" {
		name, text := rootEnv, l.Environ.Get(rootEnv)
		if text == "" && l.insideWorker() {
			name, text = l.workerVariable(rootEnv)
		}
		from := Origin{Source: FromEnv, Place: name}
		if text == "" {
			text, from = l.env.settings.Get(rootEnv), Origin{Source: FromDotenv, Place: l.env.place[rootEnv]}
		}
		if l.Kanban.Root = text; text != "" {
			l.Origins[key] = from
		} else {
			l.Kanban.Root = l.Home
		}
	}
	l.Kanban.Root = l.absolute(l.Kanban.Root)
	from := l.Origins[key]
	from.Value = l.Kanban.Root
	l.Origins[key] = from
}

// place is where the value of a key came from, or the key's file for a default.
func (l *loader) place(key string) string {
	if at := l.Origins[key].Place; at != "" {
		return at
	}
	return l.Path
}

// validate checks every leaf against its tags, whatever source it came from, then the lanes as a whole.
func (l *loader) validate() {
	for s := range settings(&l.Config) {
		if err := check(s); err != nil {
			l.refuse(l.place(s.key)+": "+s.key, err.Error(), "", nil)
		}
	}
	l.validateAPI()
	l.validateModel()
	l.validatePools()
	for _, name := range sortedKeys(reflect.ValueOf(l.Kanban.Lanes)) {
		l.validateLane(name, l.Kanban.Lanes[name])
	}
	l.validateNotify()
	l.validateMCP()
}

func check(s setting) error {
	if s.value.CanInt() {
		return checkBounds(s)
	}
	if err := checkFractions(s); err != nil {
		return err
	}
	words := leafWords(s.value)
	for _, word := range words {
		if err := checkWord(word, s.tag); err != nil {
			return err
		}
	}
	return nil
}

func leafWords(v reflect.Value) []string {
	switch x := v.Interface().(type) {
	case string:
		if x != "" {
			return []string{x}
		}
	case []string:
		return x
	}
	return nil
}

func checkBounds(s setting) error {
	low, high := int64(0), int64(1)<<53
	if s.value.Type() == durationType {
		high = int64(maxDuration)
	}
	for name, bound := range map[string]*int64{"min": &low, "max": &high} {
		if text, ok := s.tag.Lookup(name); ok {
			limit := reflect.New(s.value.Type()).Elem()
			if err := parse(limit, text, plainUnit); err != nil {
				panic(fmt.Sprintf("%s of %s: %v", name, s.key, err))
			}
			*bound = limit.Int()
		}
	}
	switch n := s.value.Int(); {
	case n < 0 && low == 0:
		return errors.New("must not be negative")
	case n < low:
		return fmt.Errorf("must be at least %s", bound(s.value.Type(), low))
	case n > high:
		return fmt.Errorf("must be at most %s", bound(s.value.Type(), high))
	}
	return nil
}

// checkFractions holds numbers with a point, alone or by name, against the limits.
func checkFractions(s setting) error {
	var numbers []float64
	switch x := s.value.Interface().(type) {
	case float64:
		numbers = []float64{x}
	case map[string]float64:
		numbers = slices.Collect(maps.Values(x))
	}
	for _, n := range numbers {
		for name, beyond := range map[string]func(limit float64) bool{
			"min": func(limit float64) bool { return n < limit }, "max": func(limit float64) bool { return n > limit },
		} {
			text, ok := s.tag.Lookup(name)
			if limit, err := strconv.ParseFloat(text, 64); ok && err == nil && beyond(limit) {
				return fmt.Errorf("must be at %s %s", map[string]string{"min": "least", "max": "most"}[name], text)
			}
		}
	}
	return nil
}

func bound(t reflect.Type, n int64) string {
	if t == durationType {
		return shortDuration(time.Duration(n))
	}
	return strconv.FormatInt(n, 10)
}

func checkWord(word string, tag reflect.StructTag) error {
	if allowed := strings.Fields(tag.Get("oneof")); len(allowed) > 0 && !slices.Contains(allowed, word) {
		err := fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
		if guess := Nearest(word, allowed); guess != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, guess)
		}
		return err
	}
	if strings.ContainsRune(word, 0) {
		return errors.New("holds a zero byte")
	}
	switch tag.Get("kind") {
	case "url":
		return checkURL(word)
	case "hook":
		return checkHook(word)
	case "origin":
		return checkOrigin(word)
	case "hostport":
		return checkHostPort(word)
	case "clock":
		if _, err := time.Parse("15:04", word); err != nil {
			return errors.New("must be a time of day such as 03:30")
		}
	case "envname":
		if !envName.MatchString(word) {
			return errors.New("must be the name of a variable, such as OPENAI_API_KEY, not its value")
		}
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkURL(word string) error {
	u, err := url.Parse(word)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("must be a URL such as http://127.0.0.1:11434/v1")
	case u.User != nil:
		return errors.New("must not hold a user or password: name the key in model.api_key_file or model.api_key_env")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must end with the path: no ? and no #")
	}
	return nil
}

// checkHook takes a query, which some receivers know their callers by.
func checkHook(word string) error {
	u, err := url.Parse(word)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("must be a URL such as https://hooks.example.org/gatewayd")
	case u.User != nil || u.Fragment != "":
		return errors.New("must not hold a user, a password or a #")
	}
	return nil
}

func checkOrigin(word string) error {
	u, err := url.Parse(word)
	if err != nil || u.Host == "" || u.Scheme == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be origins such as https://chat.example.org, without a path")
	}
	return nil
}

func checkHostPort(word string) error {
	_, port, err := net.SplitHostPort(word)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("must be HOST:PORT, such as 127.0.0.1:8642, with a port from 0 to 65535")
	}
	return nil
}
