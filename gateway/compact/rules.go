package compact

import "strings"

// Rules are the settings that decide when and how much is folded; config section compression. Default gives the usual ones.
type Rules struct {
	Threshold       float64            // fraction of the window at which a conversation is compacted
	ThresholdTokens int                // never later than this; 0: the fraction alone
	ModelThresholds map[string]float64 // by a part of the model's name, or "provider:part"; the longest wins over Threshold
	TargetRatio     float64            // tail in relation to the trigger, in the legacy mode and for rolling compaction
	Legacy          bool               // tail_mode legacy: the tail is TargetRatio of the trigger; else it is lean
	ProtectFirst    int                // rows at the beginning that are never folded
	ProtectLast     int                // rows at the end that are never folded
	MinTailUser     int                // messages of a person that the tail holds at least, where they fit
	TailAnswer      int                // characters of an answer in the tail, when the rest is folded; 0: whole
	PruneTokens     int                // from here on big old results become stubs without a summary; 0: never
	PruneMinChars   int                // results shorter than this stay
	PruneMinReclaim int                // tokens that must be won, or nothing is done
	DefragTokens    int                // a rolling summary of this size is written anew, shorter
}

// Default gives the usual rules.
func Default() Rules {
	return Rules{
		Threshold: 0.5, ThresholdTokens: 256_000, TargetRatio: 0.2, ProtectFirst: 3, ProtectLast: 20, MinTailUser: 1,
		PruneMinChars: 8000, PruneMinReclaim: 4096, DefragTokens: 2000,
	}
}

const (
	floorWindow = 512_000 // a smaller window is used to three quarters: half of it would fold far too often
	floorRatio  = 0.75
	leanLeast   = 10_000
	leanMost    = 25_000
	auxShare    = 0.8 // of the summariser's window: what is folded has to fit into it
)

// Budget is the rules applied to one model: tokens all.
type Budget struct {
	Window  int // what a request may hold
	Trigger int // from here on it is compacted
	Tail    int // what stays word for word at the end
	Roll    int // the same for rolling compaction
	Asked   int // what people wrote, word for word
	Aux     int // what the summariser may be shown
}

// Budget applies the rules to a model of a window. aux is the summariser's window, 0 when it is the same model.
func (r Rules) Budget(provider, model string, window, aux int) Budget {
	b := Budget{Window: window, Trigger: int(r.ratio(provider, model, window) * float64(window))}
	if r.ThresholdTokens > 0 {
		b.Trigger = min(b.Trigger, r.ThresholdTokens)
	}
	b.Aux = int(auxShare * float64(window))
	if aux > 0 {
		b.Aux = int(auxShare * float64(aux))
		b.Trigger = min(b.Trigger, b.Aux)
	}
	lean := min(max(window/40, leanLeast), leanMost, window/5, b.Trigger/2)
	ratio := min(int(min(max(r.TargetRatio, 0.1), 0.8)*float64(b.Trigger)), b.Trigger/2)
	b.Tail, b.Roll = lean, min(lean, ratio)
	if r.Legacy {
		b.Tail, b.Roll = ratio, ratio
	}
	b.Asked = min(max(b.Trigger/5, 500), 20_000)
	return b
}

// ratio is the model's own where there is one. Only the general one has a floor: a person who names a model means it.
func (r Rules) ratio(provider, model string, window int) float64 {
	own, found := longest(r.ModelThresholds, strings.ToLower(provider+":"+model))
	switch {
	case found:
		return own
	case window < floorWindow:
		return max(r.Threshold, floorRatio)
	}
	return r.Threshold
}

// summary is how long a summary of so many tokens may be: a fifth of them and at least 2000, but no more than the window
// bears, and never so much that nothing is won.
func (b Budget) summary(content int) int {
	n := min(max(content/5, 2000), b.Window/20, 12_000)
	return max(min(n, content*3/5), 200)
}
