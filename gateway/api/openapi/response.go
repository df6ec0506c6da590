package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// responses are the answers and the refusals, by status.
func (m *merger) responses(op operation) (map[string]any, error) {
	all := map[string]any{}
	for status, notation := range op.Answers {
		content := map[string]any{}
		if notation != nil {
			shape, err := m.shapes.of(notation)
			if err != nil {
				return nil, fmt.Errorf("%d: %w", status, err)
			}
			content[mediaJSON] = map[string]any{"schema": shape}
		}
		all[strconv.Itoa(status)] = response(describe(status), content)
	}
	if op.File != "" {
		all["200"] = response(describe(200), map[string]any{op.File: map[string]any{}})
	}
	if err := m.stream(op, all); err != nil {
		return nil, err
	}
	return all, m.refusals(op, all)
}

// response has no content where there is none.
func response(description string, content map[string]any) map[string]any {
	one := map[string]any{"description": description}
	if len(content) > 0 {
		one["content"] = content
	}
	return one
}

// stream adds the events of an answer that is a stream: x-events is the shape of each event's data by the event's name.
func (m *merger) stream(op operation, all map[string]any) error {
	if op.Stream == nil {
		return nil
	}
	events := map[string]any{}
	for name, notation := range op.Stream {
		shape, err := m.shapes.of(notation)
		if err != nil {
			return fmt.Errorf("event %s: %w", name, err)
		}
		events[name] = shape
	}
	answer, _ := all["200"].(map[string]any)
	if answer == nil {
		answer = response(describe(200), nil)
		all["200"] = answer
	}
	content, _ := answer["content"].(map[string]any)
	if content == nil {
		content = map[string]any{}
		answer["content"] = content
	}
	content[mediaStream] = map[string]any{"schema": schema{"type": "string"}, "x-events": events}
	return nil
}

// refusals adds the errors, each status with the codes that it can have.
func (m *merger) refusals(op operation, all map[string]any) error {
	codes, err := m.codesOf(op)
	if err != nil {
		return err
	}
	for status, list := range codes {
		one := response(describe(status)+": "+strings.Join(list, ", "), map[string]any{mediaJSON: map[string]any{"schema": schema{"$ref": "#/components/schemas/Error"}}})
		one["x-codes"] = list
		if said, is := all[strconv.Itoa(status)].(map[string]any); is {
			besides(one, said)
			all[strconv.Itoa(status)] = one
			continue
		}
		all[strconv.Itoa(status)] = m.share(status, list, one)
	}
	return nil
}

// codesOf are the codes of an operation by status, in order.
func (m *merger) codesOf(op operation) (map[int][]string, error) {
	codes := map[int][]string{}
	for _, name := range append(op.groups(), op.Errors...) {
		members := []string{name}
		if group, is := m.about.Groups[name]; is {
			members = group
		}
		for _, code := range members {
			statuses, err := m.statusesOf(code)
			if err != nil {
				return nil, err
			}
			for _, status := range statuses {
				codes[status] = append(codes[status], code)
			}
		}
	}
	for status, list := range codes {
		slices.Sort(list)
		codes[status] = slices.Compact(list)
	}
	return codes, nil
}

// share keeps a refusal once for all operations that can give it, and refers to it.
func (m *merger) share(status int, codes []string, refusal map[string]any) map[string]any {
	name := strconv.Itoa(status) + "." + strings.Join(codes, ".")
	m.refused[name] = refusal
	return map[string]any{"$ref": "#/components/responses/" + name}
}

// besides lets a refusal's status be that of an answer as well.
func besides(refusal, answer map[string]any) {
	shapeOf := func(response map[string]any) any {
		return response["content"].(map[string]any)[mediaJSON].(map[string]any)["schema"]
	}
	both := schema{"anyOf": []any{shapeOf(answer), shapeOf(refusal)}}
	refusal["content"] = map[string]any{mediaJSON: map[string]any{"schema": both}}
}

// statusesOf are the statuses that a code comes with: they stand before its remark.
func (m *merger) statusesOf(code string) ([]int, error) {
	text, known := m.about.Codes[code]
	if !known {
		return nil, fmt.Errorf("there is no code %s", code)
	}
	text, _, _ = strings.Cut(text, " — ")
	var list []int
	for word := range strings.FieldsSeq(text) {
		status, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("code %s: %q is no status", code, word)
		}
		list = append(list, status)
	}
	return list, nil
}
