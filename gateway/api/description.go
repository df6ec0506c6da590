package api

import (
	"maps"
	"net/http"
	"sync"

	"gatewayd/gateway"
	"gatewayd/gateway/api/openapi"
	"gatewayd/gateway/keys"
	"gatewayd/gateway/slash"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// answeredTypes are the Go types that are answered as they are, by the names that the description gives them.
var answeredTypes = map[string]any{
	"Accepted": gateway.Accepted{}, "Receipt": gateway.Receipt{}, "Command": slash.Command{}, "Check": Check{}, "Key": keys.Key{},
	"Session": sessiondb.Session{}, "Message": sessiondb.Message{}, "Hit": sessiondb.Hit{}, "StoreHealth": sessiondb.Health{},
	"Approval": sessiondb.Approval{}, "Grant": sessiondb.Grant{},
	"Task": kanban.Task{}, "Run": kanban.Run{}, "Event": kanban.Event{}, "Comment": kanban.Comment{}, "Attachment": kanban.Attachment{},
	"Pause": kanban.Pause{}, "Timer": kanban.Timer{}, "Released": kanban.Released{}, "Promotion": kanban.Promotion{}, "BulkResult": bulkResult{},
	"Board": kanban.Info{}, "CountedBoard": kanban.Counted{}, "ArchivedBoard": kanban.Archived{}, "RemovedBoard": kanban.Removed{},
	"ImportedBoard": kanban.Imported{}, "BoardStats": kanban.Stats{}, "Collected": kanban.Collected{}, "Assignee": kanban.Assignee{},
	"Columns": kanban.Columns{}, "Face": kanban.Face{}, "Diagnostic": kanban.Diagnostic{}, "WorkerLog": kanban.WorkerLog{},
	"WorkerSight": kanban.WorkerSight{}, "ActiveWorker": kanban.ActiveWorker{}, "Subscription": kanban.Subscription{}, "Parcel": kanban.Parcel{},
}

// shapesOfOthers are what Dispatch, Status and Settings answer; Options.Shapes tells their types.
var shapesOfOthers = []string{"Why", "DispatchReport", "Status", "Settings", "Reloaded", "Insights"}

// description gives the description of this API; it is made at the first call.
func (o Options) description() func() (map[string]any, error) {
	return sync.OnceValues(func() (map[string]any, error) {
		types := maps.Clone(answeredTypes)
		for _, name := range shapesOfOthers {
			types[name] = map[string]any{}
		}
		maps.Copy(types, o.Shapes)
		return openapi.Document(openapi.Source{Version: o.Version, Types: types})
	})
}

// describe answers GET /openapi.json, which is open: it says nothing of this home, and programs read it before they have a key.
func (s *server) describe() http.HandlerFunc {
	description := s.description()
	return s.handle(func(*http.Request) (answer, error) {
		document, err := description()
		return answer{http.StatusOK, document}, err
	})
}
