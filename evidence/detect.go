package evidence

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Detect returns the kind of an artifact by its content, or "" if it is unknown.
func Detect(data []byte) Kind {
	if bytes.HasPrefix(data, []byte("PK")) {
		a, _, _ := openArchive(data, false)
		switch {
		case slices.Contains(a.names, packManifestFile):
			return PackKind
		case slices.Contains(a.names, manifestFile):
			return RunpackKind
		}
		return ""
	}
	var doc struct {
		SchemaID   string `json:"schema_id"`
		RecordType string `json:"record_type"`
	}
	first := data
	if json.Unmarshal(data, &doc) != nil {
		lines(data, func(_ int, line []byte) bool { first = line; return false })
		if json.Unmarshal(first, &doc) != nil {
			return ""
		}
	}
	switch {
	case doc.SchemaID == chainSchema:
		return ChainKind
	case doc.SchemaID == traceSchema:
		return TraceKind
	case doc.RecordType != "":
		return JournalKind
	}
	return ""
}
