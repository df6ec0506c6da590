package chamber

import (
	_ "embed"
	"encoding/json"
)

// stranger is a program in Python that shares the files as plain SQLite does.
//
//go:embed foreign.py
var stranger string

// foreigners are the roles that other programs on this machine may play, if they are there: they get the parameters as
// their last argument, keep a ledger and tell events as our own roles do.
var foreigners = map[string][]string{
	"py-store-writer": {"python3", "-c", stranger},
	"py-store-reader": {"python3", "-c", stranger},
	"py-board-writer": {"python3", "-c", stranger},
	"py-board-reader": {"python3", "-c", stranger},
}

// foreignArgv is the command line of a foreign role, or nothing.
func foreignArgv(role string, params Params) ([]string, error) {
	argv, ok := foreigners[role]
	if !ok {
		return nil, nil
	}
	told, err := json.Marshal(struct {
		Params
		Role string
	}{params, role})
	return append(append([]string(nil), argv...), string(told)), err
}
