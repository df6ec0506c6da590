package sqlite

import (
	"context"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// keepBefore copies a file whose schema is about to be brought up to date: no program goes back from a newer schema, so the
// way back to an older one is this copy. A new file has nothing to keep, and a damaged one is not migrated. A copy that
// cannot be made for another reason is told and does not keep the daemon from starting: no migration takes rows away.
func (f *File) keepBefore(ctx context.Context, c *Conn) error {
	o := f.opts.Before
	if o.Dir == "" || mutation.On("upgrade-keeps-no-copy") {
		return nil
	}
	var objects int64
	if _, err := c.Row(`SELECT count(*) FROM sqlite_schema`, nil, &objects); err != nil || objects == 0 {
		return err
	}
	o.upgrade = true
	b, err := f.backup(ctx, c, o)
	switch {
	case problem.Is(err, problem.Damaged), ctx.Err() != nil:
		return err
	case err != nil && b.Dir == "":
		f.log.Warn("no copy was kept before the schema was brought up to date: there is no way back to an older gatewayd", "path", f.path, "error", err)
	default:
		f.log.Info("schema is brought up to date; a copy of before is kept", "path", f.path, "backup", b.Dir)
	}
	return nil
}
