// Package manifests holds the adapter manifests that this program ships: for
// each harness an honest report of what can be told of it and done with it by
// what is built here. What is not built is claimed unavailable.
//
// The manifests are files, embedded as they are. The package decides nothing
// from them; negotiate does, and a session that finds a claim too strong says
// so with a degradation.
//
//	m, ok := manifests.Get("claude")
//	if !ok {
//		m, _ = manifests.Get(manifests.Generic)
//	}
//	fmt.Println(m.DisplayName, manifests.Conformance(m.AdapterID))
package manifests

import (
	"embed"
	"fmt"

	"lifeloop/lifeloop"
)

//go:embed *.json
var files embed.FS

// Generic is the adapter of a program that nothing is known about: it can be
// launched, its process watched, its output counted.
const Generic = "generic"

// How far the claims of a manifest are proven.
const (
	V1   = "v1"   // each claim is backed by a test that runs the code behind it
	Pre  = "pre"  // claims are not yet verified end to end
	None = "none" // what conforms to no harness
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

// IDs lists the shipped adapters, the best proven first.
func IDs() []string {
	ids := make([]string, len(shipped))
	for i, s := range shipped {
		ids[i] = s.id
	}
	return ids
}

// Conformance says how far the shipped manifest of that id is proven: [V1],
// [Pre] or [None], which is also the answer for an id that is not shipped.
func Conformance(id string) string {
	for _, s := range shipped {
		if s.id == id {
			return s.conformance
		}
	}
	return None
}

// Raw returns the manifest as its file has it, or nil.
func Raw(id string) []byte {
	for _, s := range shipped {
		if s.id != id {
			continue
		}
		raw, err := files.ReadFile(id + ".json")
		if err != nil {
			panic(fmt.Sprintf("manifests: %s is listed and not embedded: %v", id, err))
		}
		return raw
	}
	return nil
}

// Get returns the manifest of an adapter. Each call returns a value of its
// own, so that a session may weaken its copy.
func Get(id string) (lifeloop.Manifest, bool) {
	raw := Raw(id)
	if raw == nil {
		return lifeloop.Manifest{}, false
	}
	m, err := lifeloop.Parse[lifeloop.Manifest](raw)
	if err != nil {
		panic(fmt.Sprintf("manifests: %s.json: %v", id, err))
	}
	return m, true
}
