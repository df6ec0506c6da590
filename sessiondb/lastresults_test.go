package sessiondb

import "testing"

// A tool that keeps its state in its results finds the newest one, folded or live, and none that was taken back.
func TestTheLastResultsOfAToolAreFoundWhereverTheyStand(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows, err := s.Append(t.Context(), l, []NewMessage{
		{Role: "user", Content: "x"},
		{Role: "tool", ToolName: "todo", ToolCallID: "1", Content: "folded"},
		{Role: "tool", ToolName: "todo", ToolCallID: "2", Content: "carried"},
		{Role: "tool", ToolName: "terminal", ToolCallID: "3", Content: "another tool"},
		{Role: "tool", ToolName: "todo", ToolCallID: "4", Content: "rewound"},
		{Role: "tool", ToolName: "todo", ToolCallID: "5", Content: "carried"},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, `UPDATE messages SET active = 0, compacted = 1 WHERE id = ?`, rows[1].ID)
	write(t, s, `UPDATE messages SET active = 0 WHERE id IN (?, ?)`, rows[2].ID, rows[4].ID)
	write(t, s, `UPDATE messages SET origin_id = ? WHERE id = ?`, rows[2].ID, rows[5].ID)
	got, err := s.LastResults(t.Context(), l.Session, "todo", 8)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "results", got, []string{"carried", "folded"})
	if got, err = s.LastResults(t.Context(), l.Session, "todo", 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "the newest", got, []string{"carried"})
	if got, err = s.LastResults(t.Context(), "nobody", "todo", 1); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
