//go:build !lifeloopdebug

package supervisor

import (
	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

func checkDocuments(kernel.Turn)      {}
func checkManifest(lifeloop.Manifest) {}
