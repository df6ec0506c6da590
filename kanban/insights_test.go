package kanban

import (
	"testing"
	"time"

	"gatewayd/internal/sqlite"
)

func TestInsightsOfABoardSkipAndCountRowsWithoutASoundTime(t *testing.T) {
	board := newBoard(t)
	now := time.Now().Unix()
	err := board.file.Write(t.Context(), sqlite.Op{Label: "plant", Do: func(tx *sqlite.Tx) error {
		return tx.Script(`
INSERT INTO tasks(id, title, status, created_at, completed_at) VALUES
 ('t_1', 'done', 'done', unixepoch() - 60, unixepoch()), ('t_2', 'done and archived', 'archived', unixepoch() - 60, unixepoch()), ('t_3', 'open', 'ready', unixepoch(), NULL),
 ('t_4', 'from the future', 'done', unixepoch(), unixepoch() + 90000), ('t_5', 'no number', 'ready', 'yesterday', NULL), ('t_6', 'before time', 'ready', -4, NULL);
INSERT INTO task_runs(task_id, status, started_at, ended_at, outcome) VALUES
 ('t_1', 'done', unixepoch() - 50, unixepoch() - 20, 'completed'), ('t_2', 'running', unixepoch() - 50, NULL, NULL), ('t_3', 'done', unixepoch(), unixepoch() - 9, 'crashed');`)
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := board.Insights(t.Context(), time.Unix(now-3600, 0), time.Unix(now+3600, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got.Made != 4 || got.Done != 2 || got.Runs != 2 || got.Ends["completed"] != 1 || got.Ends["running"] != 1 || got.Seconds != 30 || got.Odd != 4 {
		t.Errorf("%+v", got)
	}
}
