package provider

import "encoding/json"

// takeUsage keeps the last usage that says anything; servers that send one with each chunk send running totals.
func (a *assembly) takeUsage(raw json.RawMessage) {
	if usage := readUsage(looseObject(raw)); usage != (Usage{}) {
		a.usage = usage
	}
}

// readUsage reads the counts by the names that servers give them.
func readUsage(fields map[string]json.RawMessage) Usage {
	first := func(in map[string]json.RawMessage, names ...string) int64 {
		for _, name := range names {
			if n, ok := looseInt(in[name]); ok && n > 0 {
				return n
			}
		}
		return 0
	}
	prompt, completion := looseObject(fields["prompt_tokens_details"]), looseObject(fields["completion_tokens_details"])
	u := Usage{
		Prompt:     first(fields, "prompt_tokens", "input_tokens"),
		Completion: first(fields, "completion_tokens", "output_tokens"),
		Cached:     max(first(prompt, "cached_tokens"), first(fields, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")),
		CacheWrite: max(first(prompt, "cache_write_tokens", "cache_creation_tokens"), first(fields, "cache_creation_input_tokens")),
		Reasoning:  first(completion, "reasoning_tokens"),
	}
	u.Cached = min(u.Cached, u.Prompt)
	u.CacheWrite = min(u.CacheWrite, u.Prompt-u.Cached)
	return u.withThoughts(first(fields, "total_tokens"))
}

// withThoughts counts reasoning as a part of the completion also where the server counts it beside: what the total has beyond the two is that,
// and what is more than the whole cannot be a part of it.
func (u Usage) withThoughts(total int64) Usage {
	if beside := total - u.Prompt - u.Completion; beside > 0 {
		u.Completion += beside
		u.Reasoning = max(u.Reasoning, beside)
	}
	if u.Reasoning > u.Completion {
		u.Completion += u.Reasoning
	}
	return u
}
