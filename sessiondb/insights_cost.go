package sessiondb

import "slices"

// Price is what a million tokens of a model cost, in whatever currency the person who told it counts. Cached and CacheWrite are of the prompt's
// tokens that came from a cache or were put into one; negative ones cost as much as Input.
type Price struct{ Input, Output, Cached, CacheWrite float64 }

// Cost is what the tokens with a known price cost. The models in Unpriced have none: what they cost is not known, which is not nothing.
type Cost struct {
	Known    float64  `json:"known"`
	Unpriced []string `json:"unpriced"`
}

// ModelCost is the sum of a model with what it cost; nil is not known.
type ModelCost struct {
	ModelUsage
	Cost *float64 `json:"cost"`
}

const million = 1_000_000

// of is what so many tokens cost. Reasoning is a part of Completion, Cached and CacheWrite are parts of Prompt.
func (p Price) of(n Counts) float64 {
	cached, written := p.Cached, p.CacheWrite
	if cached < 0 {
		cached = p.Input
	}
	if written < 0 {
		written = p.Input
	}
	fresh := n.Prompt - n.Cached - n.CacheWrite
	return (float64(fresh)*p.Input + float64(n.Cached)*cached + float64(n.CacheWrite)*written + float64(n.Completion)*p.Output) / million
}

// priced fills in what the models cost and sums it up. Those that used no tokens need no price.
func priced(models []ModelCost, price func(string) (Price, bool)) Cost {
	sum := Cost{Unpriced: []string{}}
	for i := range models {
		m := &models[i]
		p, known := Price{}, m.Prompt == 0 && m.Completion == 0
		if !known && price != nil && m.Model != others {
			p, known = price(m.Model)
		}
		if known {
			m.Cost = new(p.of(m.Counts))
			sum.Known += *m.Cost
		} else if !slices.Contains(sum.Unpriced, m.Model) {
			sum.Unpriced = append(sum.Unpriced, m.Model)
		}
	}
	return sum
}
