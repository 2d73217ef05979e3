package config

import (
	"bytes"
	_ "embed"
)

//go:embed config.schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of the file format. It describes one
// file; only the loader checks the merged configuration (repeated ids, the
// order of bounds).
func Schema() []byte { return bytes.Clone(schema) }
