package api

import (
	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
)

// Bounds of what a client may ask of an answer, as the service that clients know has them; seeds and bounds of an answer as far as every
// server reads them.
const (
	mostTemperature = 2
	mostAnswer      = 10_000_000 // tokens; far above every model
	mostStops       = 4
	mostStop        = 1_000 // bytes
)

// takeWishes reads what a request asks of the answer. bounds are the names that its door has for the most tokens of one; the last that is there
// counts.
func takeWishes(o object, w *provider.Wishes, bounds ...string) error {
	for _, step := range []func() error{
		func() error { return takeShare(o, "temperature", mostTemperature, &w.Temperature) },
		func() error { return takeShare(o, "top_p", 1, &w.TopP) },
		func() error { return takeStops(o, &w.Stop) },
		func() error { return take(o, "seed", &w.Seed) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, name := range bounds {
		if err := takeBound(o, name, &w.MaxTokens); err != nil {
			return err
		}
	}
	return nil
}

func takeShare(o object, field string, most float64, to **float64) error {
	if err := take(o, field, to); err != nil {
		return err
	}
	if v := *to; v != nil && (*v < 0 || *v > most) && !mutation.On("wishes-have-no-bounds") {
		return errField(o.name(field), "must be 0 to %g, not %g", most, *v)
	}
	return nil
}

func takeBound(o object, field string, to *int) error {
	if err := take(o, field, to); err != nil {
		return err
	}
	if o.has(field) && (*to < 1 || *to > mostAnswer) {
		return errField(o.name(field), "must be 1 to %d, not %d", mostAnswer, *to)
	}
	return nil
}

// takeStops reads one text or a list of them.
func takeStops(o object, to *[]string) error {
	if o.has("stop") && jsonKind(o.fields["stop"]) == "a string" {
		one := ""
		if err := take(o, "stop", &one); err != nil {
			return err
		}
		*to = []string{one}
	} else if err := take(o, "stop", to); err != nil {
		return err
	}
	if len(*to) > mostStops {
		return errField(o.name("stop"), "has %d texts; %d are the most", len(*to), mostStops)
	}
	for _, text := range *to {
		if text == "" || len(text) > mostStop {
			return errField(o.name("stop"), "must be of texts of 1 to %d bytes", mostStop)
		}
	}
	return nil
}
