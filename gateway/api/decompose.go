package api

import (
	"encoding/json"
	"fmt"

	"gatewayd/kanban"
)

// childrenInto reads the cards of a decomposition, each as POST …/tasks takes it.
func childrenInto(split *kanban.Decomposition) func(object) error {
	return func(o object) (err error) {
		var list []map[string]json.RawMessage
		if err := take(o, "children", &list); err != nil {
			return err
		}
		split.Children, err = cardsOf("children", list)
		return err
	}
}

// ParseCards reads a JSON list of new cards, each as POST …/tasks takes it. What is wrong is named with its place.
func ParseCards(raw []byte) ([]kanban.NewTask, error) {
	o, err := parseObject(append(append([]byte(`{"cards":`), raw...), '}'))
	if err != nil {
		return nil, err
	}
	var list []map[string]json.RawMessage
	if err := take(o, "cards", &list); err != nil {
		return nil, err
	}
	return cardsOf("cards", list)
}

func cardsOf(field string, list []map[string]json.RawMessage) ([]kanban.NewTask, error) {
	cards := make([]kanban.NewTask, len(list))
	for i, fields := range list {
		card, err := parseCard(object{path: fmt.Sprintf("%s[%d]", field, i), fields: fields, asked: map[string]bool{}})
		if err != nil {
			return nil, err
		}
		cards[i] = card
	}
	return cards, nil
}
