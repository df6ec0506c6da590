package config

// Row is one line of `gatewayd config show`.
type Row struct {
	Key string `json:"key"`
	Origin
}

// Rows gives every setting in force in the order of the struct, with where each came from. Secrets are marks.
func (l Loaded) Rows() []Row {
	rows := []Row{{"home", l.Origins["home"]}}
	c := l.Config
	for s := range settings(&c) {
		rows = append(rows, Row{s.key, l.Origins[s.key]})
		if s.key == "model.api_key_file" {
			rows = append(rows, Row{"model.api_key", l.keyOrigin()})
		}
	}
	return rows
}

func (l Loaded) keyOrigin() Origin {
	if from, ok := l.Origins["model.api_key"]; ok {
		return from
	}
	return Origin{Source: FromDefault}
}
