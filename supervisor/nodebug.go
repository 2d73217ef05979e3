//go:build !lifeloopdebug

package supervisor

import (
	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

func checkDocuments(kernel.Output)    {}
func checkManifest(lifeloop.Manifest) {}
