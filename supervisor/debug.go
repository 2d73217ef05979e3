//go:build lifeloopdebug

package supervisor

import (
	"encoding/json"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
	"lifeloop/lifeloop/lifelooptest"
)

// checkDocuments panics if an output of the kernel contains an invalid document, which is a bug of
// this program. Only a build with the tag lifeloopdebug makes this check.
func checkDocuments(out kernel.Output) {
	for _, f := range out.Facts {
		switch f := f.(type) {
		case kernel.ReceiptIssued:
			checkDocument("lifecycle_receipt", f.Receipt)
		case kernel.Observed:
			checkDocument(lifelooptest.EventRecord, f.Record)
		}
	}
	for _, e := range out.Effects {
		if d, ok := e.(effect.Dispatch); ok {
			doc, err := d.Envelope.Encode()
			mustBeValid(err)
			mustBeValid(lifelooptest.Check("dispatch_envelope", doc))
		}
	}
}

func checkManifest(m lifeloop.Manifest) { checkDocument("adapter_manifest", m) }

func checkDocument(kind string, document any) {
	doc, err := json.Marshal(document)
	mustBeValid(err)
	mustBeValid(lifelooptest.Check(kind, doc))
}

func mustBeValid(err error) {
	if err != nil {
		panic("supervisor: an invalid document: " + err.Error())
	}
}
