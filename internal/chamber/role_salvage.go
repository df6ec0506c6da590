package chamber

import "context"

func salvaged() Fault {
	return Fault{Name: "salvage", Do: func(ctx context.Context, s *Stage) error { return nil }}
}
