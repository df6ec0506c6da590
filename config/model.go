package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Model says which model answers. With no BaseURL the daemon looks for a local server on its usual port and
// otherwise answers as the offline model.
type Model struct {
	// Provider is auto, openai (any compatible server; BaseURL is then needed) or offline (no model is asked).
	Provider string `yaml:"provider" default:"auto" oneof:"auto openai offline"`
	// API is the protocol: openai, anthropic, or auto, which takes anthropic for api.anthropic.com alone.
	API string `yaml:"api" default:"auto" oneof:"auto openai anthropic"`
	// BaseURL of the server, up to and including /v1.
	BaseURL string `yaml:"base_url" kind:"url"`
	// Name of the model as the server knows it; empty takes the first that the server lists.
	Name string `yaml:"name"`
	// APIKeyEnv names the environment variable that holds the key.
	APIKeyEnv string `yaml:"api_key_env" kind:"envname"`
	// APIKeyFile is a file that holds the key; relative to the home.
	APIKeyFile string `yaml:"api_key_file" kind:"path"`
	// ContextLength in tokens; 0 asks the server.
	ContextLength int `yaml:"context_length" default:"0" max:"100000000"`
	// ReasoningEffort asks a reasoning model for so much thought; empty leaves it to the server.
	ReasoningEffort string `yaml:"reasoning_effort" oneof:"none minimal low medium high"`
	// CacheTTL is how long Anthropic's servers keep a prompt that is sent again: 5m, 1h (dearer to write) or off.
	CacheTTL string `yaml:"cache_ttl" default:"5m" oneof:"5m 1h off"`
	// RequestTimeout bounds one call of the model as a whole.
	RequestTimeout time.Duration `yaml:"request_timeout" default:"1800s" min:"1s"`
	// FirstTokenTimeout bounds the wait for the first token of an answer. While it is the default, the wait follows the place of
	// the server (15 minutes for one on this machine), the length of the prompt and the rate at which the server was seen to read.
	FirstTokenTimeout time.Duration `yaml:"first_token_timeout" default:"180s" min:"1s"`
	// Slots lets a llama.cpp server be asked for its slots while a first token is awaited: one that gets further with the prompt is waited for,
	// as long as request_timeout allows. auto asks servers on this machine and its own network.
	Slots string `yaml:"slots" default:"auto" oneof:"auto on off"`
	// StallTimeout bounds the silence between two pieces of a streamed answer.
	StallTimeout time.Duration `yaml:"stall_timeout" default:"180s" min:"1s"`
	// MaxRetries after the first try; 0 means one try and no more.
	MaxRetries int `yaml:"max_retries" default:"3" max:"100"`
	// BreakerAfter so many calls in a row that the server left without a word it is left alone for a while; 0 is never.
	BreakerAfter int `yaml:"breaker_after" default:"5" max:"1000"`
	// MaxConcurrent calls at the same time with one key, of all chats and workers of this home; 0 is no limit.
	MaxConcurrent int `yaml:"max_concurrent" default:"0" max:"10000"`
	// RequestsPerMinute with one key, of all chats and workers of this home; 0 is no limit.
	RequestsPerMinute int `yaml:"requests_per_minute" default:"0" max:"1000000"`
	// Fallbacks answer, in this order, when the model above cannot.
	Fallbacks []Fallback `yaml:"fallbacks"`
	// Prices of models by name, so that what was used can be said in money. A model that is not here has no known price.
	Prices map[string]Price `yaml:"prices"`

	// APIKey is the key itself, found by Load. It is no setting: the file only says where it is.
	APIKey Secret `yaml:"-"`
}

// Price is what a million tokens of a model cost, in the currency that you count in.
type Price struct {
	// Input is for tokens of the prompt.
	Input float64 `yaml:"input" default:"0" min:"0" max:"1000000"`
	// Output is for tokens of the answer, its reasoning included.
	Output float64 `yaml:"output" default:"0" min:"0" max:"1000000"`
	// Cached is for those of the prompt that came from a cache; -1 is as input.
	Cached float64 `yaml:"cached" default:"-1" min:"-1" max:"1000000"`
	// CacheWrite is for those that were put into one; -1 is as input.
	CacheWrite float64 `yaml:"cache_write" default:"-1" min:"-1" max:"1000000"`
}

// Fallback is another model that can answer.
type Fallback struct {
	// BaseURL of its server, up to and including /v1.
	BaseURL string `yaml:"base_url" kind:"url"`
	// API is its protocol, as model.api.
	API string `yaml:"api" default:"auto" oneof:"auto openai anthropic"`
	// Name of the model; empty takes the first that the server lists.
	Name string `yaml:"name"`
	// APIKeyEnv and APIKeyFile say where its key is, as those of model. Without either it is asked without a key.
	APIKeyEnv  string `yaml:"api_key_env" kind:"envname"`
	APIKeyFile string `yaml:"api_key_file" kind:"path"`
	// ContextLength in tokens; 0 is unknown.
	ContextLength int `yaml:"context_length" default:"0" max:"100000000"`

	// APIKey is the key itself, found by Load.
	APIKey Secret `yaml:"-"`
}

// KeyVariables are the variables in which the keys of the models live, or the place where they do.
func (c Config) KeyVariables() []string {
	var names []string
	for _, name := range append([]string{c.Model.APIKeyEnv, c.Auxiliary.Compression.APIKeyEnv, c.Auxiliary.MicroCompaction.APIKeyEnv}, fallbackVariables(c.Model.Fallbacks)...) {
		if name != "" {
			names = append(names, name)
		}
	}
	return append(names, credentialsEnv)
}

func fallbackVariables(list []Fallback) (names []string) {
	for _, f := range list {
		names = append(names, f.APIKeyEnv)
	}
	return names
}

// ReadKeyFile reads a model's key anew, for a server that refuses the one from before. Anything but one word is none.
func ReadKeyFile(path string) string {
	text, err := readSmall(path)
	key := strings.TrimSpace(string(text))
	if err != nil || strings.ContainsAny(key, " \t\r\n") {
		return ""
	}
	return key
}

// settleModel finds the keys.
func (l *loader) settleModel() {
	l.Model.APIKeyFile = l.absolute(l.Model.APIKeyFile)
	if key := l.Environ.Get(modelKeyEnv); key != "" {
		l.Model.APIKey = NewSecret(strings.TrimSpace(key))
		l.Origins["model.api_key"] = Origin{Value: redacted, Source: FromEnv, Place: modelKeyEnv}
	} else {
		l.Model.APIKey = l.modelKey("model.", l.Model.APIKeyEnv, l.Model.APIKeyFile)
	}
	if text := l.env.settings.Get(modelKeyEnv); text != "" && !l.Model.APIKey.Set() {
		l.Model.APIKey = NewSecret(strings.TrimSpace(text))
		l.Origins["model.api_key"] = Origin{Value: redacted, Source: FromDotenv, Place: l.env.place[modelKeyEnv]}
	}
	for i := range l.Model.Fallbacks {
		f := &l.Model.Fallbacks[i]
		f.APIKeyFile = l.absolute(f.APIKeyFile)
		f.APIKey = l.modelKey(fmt.Sprintf("model.fallbacks[%d].", i), f.APIKeyEnv, f.APIKeyFile)
	}
}

// credentialName is what the credential of a secret is called: its key, where the number of a list's entry is a word of its own.
func credentialName(key string) string { return strings.NewReplacer("[", ".", "]", "").Replace(key) }

// credential is the file in which systemd hands over a secret (LoadCredential=NAME:PATH in the unit); empty where it does not.
func (l *loader) credential(name string) string {
	dir := l.Environ.Get(credentialsEnv)
	if dir == "" {
		return ""
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// variableOrigin is where the text of a variable comes from.
func (l *loader) variableOrigin(name string) Origin {
	if place, ok := l.env.place[name]; ok && l.env.adds[name] {
		return Origin{Value: redacted, Source: FromDotenv, Place: place}
	}
	return Origin{Value: redacted, Source: FromEnv, Place: name}
}

// modelKey takes the first of the named variable, the named file and the credential.
func (l *loader) modelKey(prefix, variable, file string) Secret {
	if envName.MatchString(variable) {
		if key := l.Environ.Get(variable); key != "" {
			l.Origins[prefix+"api_key"] = l.variableOrigin(variable)
			return NewSecret(strings.TrimSpace(key))
		}
		l.Warnings = append(l.Warnings, fmt.Sprintf("%sapi_key_env names %s, which is not set%s: the model is called without a key", prefix, variable, l.env.like(variable)))
	}
	from := Origin{Value: redacted, Source: FromFile, Place: file}
	thing := l.place(prefix+"api_key_file") + ": " + prefix + "api_key_file " + file
	if name := credentialName(prefix + "api_key"); file == "" {
		file, from.Source, from.Place = l.credential(name), FromCredential, name
		thing = "credential " + name
	}
	if file == "" {
		return Secret{}
	}
	text, err := readSmall(file)
	switch key := strings.TrimSpace(string(text)); {
	case err != nil:
		l.refuse(thing, "cannot be read", "put the key into that file or correct the path", err)
	case key == "" || strings.ContainsAny(key, " \t\r\n"):
		l.refuse(thing, "must hold the key and nothing else", "write the key on one line", nil)
	default:
		l.Origins[prefix+"api_key"] = from
		return NewSecret(key)
	}
	return Secret{}
}

func (l *loader) validateModel() {
	if l.Model.Provider == "openai" && l.Model.BaseURL == "" {
		l.refuse(l.place("model.provider")+": model.provider", "is openai, and model.base_url is empty", "name the server in model.base_url, or leave the provider out", nil)
	}
	for i, f := range l.Model.Fallbacks {
		key := fmt.Sprintf("model.fallbacks[%d]", i)
		if f.BaseURL == "" {
			l.refuse(l.place(key+".base_url")+": "+key, "says no base_url", "add `base_url: https://…/v1`", nil)
		}
	}
}
