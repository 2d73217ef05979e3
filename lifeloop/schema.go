package lifeloop

import "embed"

//go:embed schema/*.json
var schemas embed.FS

// Schema returns the JSON Schema (2020-12) of a kind of document, or nil for a
// kind that [Kinds] does not list. Schemas refer to each other, and to
// [CommonSchema], by "urn:lifeloop:v0.2:" and the kind. They are for readers
// elsewhere: [Parse] checks what they say and more, and does not read them.
func Schema(kind string) []byte {
	for _, k := range kinds {
		if k.name == kind {
			return schemaFile(kind)
		}
	}
	return nil
}

// CommonSchema returns the definitions that the schemas share.
func CommonSchema() []byte { return schemaFile("common") }

func schemaFile(name string) []byte {
	doc, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		panic("lifeloop: schema " + name + " is not embedded")
	}
	return doc
}
