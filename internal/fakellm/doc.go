// Package fakellm is a model server on the loopback that does what a script says: answer in pieces, call tools, fail, hang, break
// off in the middle, talk nonsense. Tests and `selftest` put it where a real server would be and ask it afterwards what it was sent.
//
// It speaks chat completions and, under /messages, Anthropic's protocol, out of one script. What takes time waits for a channel that the test holds,
// so a test decides when a token arrives; only a Delay that the script asks for lets time itself pass. The
// client's going away is an event (Request.Gone) that a test can wait for. The answer of a request is taken from the script in the order
// in which requests arrive; an exhausted script answers 400 naming itself, which no client repeats.
package fakellm
