package config

import "fmt"

// EnvVariable is one variable of a .env file.
type EnvVariable struct {
	Name  string
	Value Secret // whether it is one or not
	Line  int    // from 1
}

// ReadEnvFile reads a .env file of any program by the rules of a home's own. Mistakes name their lines and never a value; what could
// be read is given beside them.
func ReadEnvFile(path string) (list []EnvVariable, mistakes []string, err error) {
	text, err := readSmall(path)
	if err != nil {
		return nil, nil, err
	}
	lines, wrong := parseEnv(text)
	for _, l := range lines {
		list = append(list, EnvVariable{l.name, NewSecret(l.value), l.line})
	}
	for _, m := range wrong {
		mistakes = append(mistakes, fmt.Sprintf("line %d %s", m.line, m.what))
	}
	return list, mistakes, nil
}

// IsSetting reports a name of a variable that is, or was meant to be, a setting of gatewayd or of a board.
func IsSetting(name string) bool { return looksOurs(name) }
