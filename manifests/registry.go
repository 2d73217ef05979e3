// Package manifests holds the shipped adapter manifests. A manifest lists what
// this program can observe and control in a harness. Everything that is not
// implemented is marked unavailable.
//
// The manifests are embedded files. The package only returns them: package
// negotiate decides what they allow, and a session reports a degradation if a
// claim proves to be too strong.
//
//	m, ok := manifests.Get("claude")
//	if !ok {
//		m, _ = manifests.Get(manifests.Generic)
//	}
//	fmt.Println(m.DisplayName, manifests.Conformance(m.AdapterID))
package manifests

import (
	"embed"
	"encoding/json"
	"fmt"

	"lifeloop/lifeloop"
)

//go:embed *.json
var files embed.FS

// Generic is the adapter for an unknown program: the program can be launched, its
// process watched and its output counted.
const Generic = "generic"

// Conformance levels: how far the claims of a manifest are verified.
const (
	V1   = "v1"   // each claim has a test that runs the code behind it
	Pre  = "pre"  // claims are not yet verified end to end
	None = "none" // not a harness
)

var shipped = []struct {
	id          string
	conformance string
}{
	{"claude", V1},
	{"codex", V1},
	{"gemini", V1},
	{"hermes", Pre},
	{"openclaw", Pre},
	{"opencode", Pre},
	{Generic, None},
}

// IDs lists the shipped adapters, the best verified first.
func IDs() []string {
	ids := make([]string, len(shipped))
	for i, s := range shipped {
		ids[i] = s.id
	}
	return ids
}

// Conformance returns the level of the shipped manifest of that id: [V1], [Pre]
// or [None]. For an id that is not shipped it returns [None].
func Conformance(id string) string {
	for _, s := range shipped {
		if s.id == id {
			return s.conformance
		}
	}
	return None
}

// Raw returns the text of the manifest's file, or nil.
func Raw(id string) []byte {
	raw, err := files.ReadFile(id + ".json")
	if err != nil {
		return nil // the only possible error: there is no such manifest
	}
	return raw
}

// Get returns the manifest of an adapter. Each call returns a new value that the
// caller may change.
func Get(id string) (lifeloop.Manifest, bool) {
	raw := Raw(id)
	if raw == nil {
		return lifeloop.Manifest{}, false
	}
	// A test validates the manifests with lifeloop.Parse. Get does not, because Parse
	// would take three times as long as Unmarshal in every start of a wrapper.
	var m lifeloop.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		panic(fmt.Sprintf("manifests: %s.json: %v", id, err))
	}
	return m, true
}
