package openapi

import "strings"

// QueryParameters gives the names that the query of each operation may have, by "METHOD PATH".
func QueryParameters() (map[string][]string, error) {
	_, nouns, err := readAll()
	if err != nil {
		return nil, err
	}
	known := map[string][]string{}
	for _, op := range operations(nouns) {
		names := make([]string, 0, len(op.Query))
		for _, key := range sortedKeys(op.Query) {
			names = append(names, strings.TrimSuffix(key, "?"))
		}
		known[strings.ToUpper(op.method)+" "+op.path] = names
	}
	return known, nil
}
