package lifeloop

import (
	"embed"
	"slices"
)

//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema (2020-12) of a kind of document, the
// definitions that the schemas share for "common", or nil for any other name.
// Schemas refer to each other by "urn:lifeloop:v0.2:" and the kind. They are for
// other programs: [Parse] checks what they say and more, and does not read them.
func Schema(kind string) []byte {
	if kind == "common" || slices.Contains(Kinds(), kind) {
		return schemaFile(kind)
	}
	return nil
}

func schemaFile(name string) []byte {
	doc, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		panic("lifeloop: schema " + name + " is not embedded")
	}
	return doc
}
