package telemetry

// Digesting makes a decoder tell what went into a tool and came out of it, as
// Args and Result: digest and size of the very bytes that the source holds. It
// is asked for, since each of those bytes has to be gone through for it, and a
// decoder else steps over them. Decoders of other sources are what they were.
func Digesting(d Decoder) Decoder {
	if s, ok := d.(interface{ digestTools() }); ok {
		s.digestTools()
	}
	return d
}

// digesting is embedded by the decoders whose source holds such texts.
type Digests struct{ wanted bool }

func (d *Digests) digestTools() { d.wanted = true }

// sized is the text if it is wanted, and if there is one.
func (d *Digests) Sized(text []byte) *Sized {
	if !d.wanted {
		return nil
	}
	return SizedOf(text)
}

// What may be wrong with a tool call, as Signal.ToolError says it. The words are
// those of L0, and stand so on the ledger.
const (
	ToolNotFound = "NOT_FOUND"
	ToolFailed   = "EXECUTION_ERROR"  // which of them it is, is not told
	ToolRefused  = "VALIDATION_ERROR" // its arguments were none that it takes
)

// toolError is the error of a call of which is told that it failed, and no more.
func ToolErrorOf(failed bool) string {
	if failed {
		return ToolFailed
	}
	return ""
}
