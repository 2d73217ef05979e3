package telemetry

// Calls remembers the reported model calls, or other records with an id. It is used
// to count each call once, because a source may repeat a call's usage: on each line
// of one answer, or when it rewrites a part of a file.
//
// It remembers at least the newest callsKept calls and at most twice as many, in
// two generations. When the newer generation is full, it replaces the older one,
// which is forgotten. A repeat of a forgotten call is reported again. An entry takes
// about 20 bytes, so Calls takes at most some 1.5 MiB.
type Calls struct{ newer, older map[uint64]int64 }

const callsKept = 1 << 15

// News reports whether this usage is new: the first of the call, or one with a
// larger output than before. A call with neither an id nor a request always counts
// as new.
func (c *Calls) News(session, id, request string, output int64) bool {
	if id == "" && request == "" {
		return true
	}
	key := callKey(session, id, request)
	known, ok := c.newer[key]
	if !ok {
		known, ok = c.older[key]
	}
	if ok && output <= known {
		return false
	}
	if c.newer == nil || len(c.newer) >= callsKept {
		c.newer, c.older = make(map[uint64]int64), c.newer
	}
	c.newer[key] = output
	return true
}

// callKey is the FNV-1a hash of the three names. None of them contains a zero
// byte. A collision is very unlikely: of some tens of millions of sessions with a
// million calls each, one has two calls with the same key.
func callKey(names ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range names {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h *= prime // hashes a zero byte, which separates two names
	}
	return h
}
