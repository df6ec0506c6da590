package config

import "strings"

// Row is one line of `gatewayd config show`.
type Row struct {
	Key string `json:"key"`
	Origin
	// Live is from when on a change counts in a running daemon; empty: from its next start on.
	Live string `json:"live,omitempty"`
}

// Rows gives every setting in force in the order of the struct, with where each came from. Secrets are marks, each behind the
// setting that names its file.
func (l Loaded) Rows() []Row {
	rows := []Row{{Key: "home", Origin: l.Origins["home"]}}
	c := l.Config
	for s := range settings(&c) {
		rows = append(rows, Row{s.key, l.Origins[s.key], Live(s.key)})
		secret, isFile := strings.CutSuffix(s.key, "_file")
		if !isFile {
			continue
		}
		if from, found := l.secretOrigin(secret); found {
			rows = append(rows, Row{secret, from, Live(secret)})
		}
	}
	return rows
}

// secretOrigin is where a secret came from. That of the model is told even where there is none.
func (l Loaded) secretOrigin(key string) (Origin, bool) {
	from, found := l.Origins[key]
	if !found && key == "model.api_key" {
		return Origin{Source: FromDefault}, true
	}
	return from, found
}
