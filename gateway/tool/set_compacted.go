package tool

// Compacted tells the tools that earlier results of a conversation are not sent any more: what a tool answered with "as before"
// has to be said in full again.
func (s *Set) Compacted(session string) {
	for _, t := range s.list() {
		if c, ok := t.(interface{ Compacted(session string) }); ok {
			c.Compacted(session)
		}
	}
}
