package gate

import (
	"encoding/json"
	"time"
)

// A Request describes an act about which this program asks the gate.
type Request struct {
	CreatedAt time.Time
	Producer  string
	ToolName  string
	Args      map[string]any
	Targets   []Target
	Context   Context
}

// Intent encodes the request as an IntentRequest and passes it to [ParseIntent], so that
// the rules for an IntentRequest from outside apply.
func (r Request) Intent() (Intent, error) {
	targets := append([]Target{}, r.Targets...)
	doc, err := json.Marshal(map[string]any{"schema_id": intentSchema, "schema_version": schemaVersion, "created_at": r.CreatedAt.UTC(),
		"producer_version": r.Producer, "tool_name": r.ToolName, "args": r.Args, "targets": targets, "context": r.Context})
	if err != nil {
		return Intent{}, err
	}
	return ParseIntent(doc)
}
