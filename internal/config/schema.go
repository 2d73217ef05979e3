package config

import (
	"bytes"
	_ "embed"
)

//go:embed config.schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of the file format. It says what one file
// may hold; what only the merged whole can break (ids that repeat, bounds out
// of order) the loader alone can tell.
func Schema() []byte { return bytes.Clone(schema) }
