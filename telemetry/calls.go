package telemetry

// calls remembers which model calls were told, so that a usage which is
// repeated, on each line of one answer or in a part of a file that is written
// anew, is one usage.
//
// It remembers at least the newest callsKept calls and at most twice as many,
// in two generations: when the newer one is full it becomes the older one, and
// what stood there is forgotten. A call that is repeated at a greater distance
// is told again; who adds up keeps the ids himself. One entry takes about 20
// bytes, so this is at most some 1.5 MiB, and as little as there are calls.
type Calls struct{ Newer, Older map[uint64]int64 }

const CallsKept = 1 << 15

// news says whether this is the first usage of the call, or one with a larger
// output than was told. A call without an id and a request is always news.
func (c *Calls) News(session, id, request string, output int64) bool {
	if id == "" && request == "" {
		return true
	}
	key := callKey(session, id, request)
	told, ok := c.Newer[key]
	if !ok {
		told, ok = c.Older[key]
	}
	if ok && output <= told {
		return false
	}
	if c.Newer == nil || len(c.Newer) >= CallsKept {
		c.Newer, c.Older = make(map[uint64]int64), c.Newer
	}
	c.Newer[key] = output
	return true
}

// callKey is the FNV-1a hash of the three names, of which none contains a zero
// byte. Of a million calls two share a key once in some tens of millions of
// sessions.
func callKey(names ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range names {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h *= prime // a zero byte between two names
	}
	return h
}
