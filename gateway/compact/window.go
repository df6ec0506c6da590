package compact

import "strings"

// Windows, in tokens.
const (
	Unknown  = 256_000 // when nobody said
	LeastFor = 64_000  // below it a conversation with tools has hardly room for one task
)

// usual are the windows of well-known families, where neither the settings nor the server tell. The longest part of a name
// that matches counts. Servers of local models are asked: how much those hold depends on how they were started.
var usual = map[string]int{
	"gpt-4o": 128_000, "gpt-4-turbo": 128_000, "gpt-4.1": 1_047_576, "gpt-5": 400_000, "gpt-oss": 131_072, "o3": 200_000, "o4-mini": 200_000,
	"claude": 200_000, "gemini": 1_048_576, "deepseek": 128_000, "mistral-large": 131_072, "codestral": 256_000, "grok": 131_072,
	"llama-3.1": 131_072, "llama3.1": 131_072, "llama-3.3": 131_072, "llama3.3": 131_072, "qwen3-coder": 262_144, "kimi": 131_072,
}

// Usual gives the window of a well-known model, or 0.
func Usual(model string) int {
	window, _ := longest(usual, strings.ToLower(model))
	return window
}

// longest looks a name up in a table of parts of names: the longest part that is in it wins.
func longest[T any](table map[string]T, name string) (value T, found bool) {
	length := -1
	for part, v := range table {
		if len(part) > length && strings.Contains(name, strings.ToLower(part)) {
			value, found, length = v, true, len(part)
		}
	}
	return value, found
}
