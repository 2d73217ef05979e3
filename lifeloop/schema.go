package lifeloop

import "embed"

//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema (2020-12) of a kind of document. For "common" it
// returns the definitions that the schemas share, and for any other name nil.
// Schemas refer to each other by "urn:lifeloop:v0.2:" and the kind. The schemas
// are for other programs. [Parse] does not read them; it checks the same rules
// and more.
func Schema(kind string) []byte {
	doc, _ := schemas.ReadFile("schema/" + kind + ".json")
	return doc
}
