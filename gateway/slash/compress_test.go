package slash

import (
	"testing"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
)

// Each way to say what is to be folded means that, and what means nothing is refused instead of being taken for a topic.
func TestWhatCompressIsAskedFor(t *testing.T) {
	for args, want := range map[string]gateway.Compress{
		"": {}, "here": {Here: 2}, "HERE 3": {Here: 3}, "here 3 --preview": {Here: 3, Preview: true}, "--dry-run": {Preview: true},
		"up to here": {Here: 2}, "up to here 4": {Here: 4}, "--keep 5": {Here: 5}, "-k 1 --preview": {Here: 1, Preview: true},
		"the garden and the sea": {Topic: "the garden and the sea"}, "here comes the sun": {Topic: "here comes the sun"}, "up to now": {Topic: "up to now"},
	} {
		line, _, err := Parse("/compress " + args)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseCompress(line); err != nil || got != want {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
	for _, args := range []string{"here 0", "here all", "--keep", "-k x", "--aggressive", "--kepp 2", "here -1"} {
		line, _, _ := Parse("/compress " + args)
		if _, err := parseCompress(line); !problem.Is(err, problem.Invalid) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
