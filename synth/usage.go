package synth

import "lifeloop/telemetry"

// Calls is what a number of model calls add up to. The parts are exclusive, as
// those of [telemetry.Usage].
type Calls struct {
	Calls      int64 `json:"calls"`
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
}

func (c *Calls) add(u telemetry.Usage, sign int64) {
	c.Calls += sign
	c.Input += sign * u.Input
	c.CacheRead += sign * u.CacheRead
	c.CacheWrite += sign * u.CacheWrite
	c.Output += sign * u.Output
	c.Reasoning += sign * u.Reasoning
}

func (c *Calls) plus(d Calls) {
	c.Calls += d.Calls
	c.Input += d.Input
	c.CacheRead += d.CacheRead
	c.CacheWrite += d.CacheWrite
	c.Output += d.Output
	c.Reasoning += d.Reasoning
}

// Usage is what a session's model calls cost, by the chain they were made for:
// the session's own turns, those of its sub-agents, and calls beside both
// (titles, compactions).
type Usage struct {
	Main   Calls `json:"main"`
	Agents Calls `json:"agents"`
	Side   Calls `json:"side"`
}

// Plus is what u and v add up to.
func (u Usage) Plus(v Usage) Usage {
	u.Main.plus(v.Main)
	u.Agents.plus(v.Agents)
	u.Side.plus(v.Side)
	return u
}

// A Meter adds up model calls. Each counts once, whoever repeats it: records of
// one (session, id, request) are one call, and the one with the most output is
// what it cost. Several sources tell the same calls under names that cannot be
// joined, so each source is added up for itself: the main chain of each harness
// session is told by the best source that tells of that session, and so are all
// sub-agents together, whose sessions one source names and another does not,
// and all calls beside. The zero value is ready.
type Meter struct{ books []*book }

// maxCalls bounds how many calls of one source are remembered. A repeat of an
// older one counts again; harnesses repeat a call within the same turn, or
// copy a whole session into a new one, whose id is another.
const maxCalls = 1 << 15

// A book is what one source told.
type book struct {
	source       string
	main         map[string]*Calls // by harness session; "" where it is not named
	agents, side Calls
	calls        map[callName]*entry
	order        []callName // oldest first
}

type callName struct{ session, id, request string }

type entry struct {
	chain *Calls
	usage telemetry.Usage
}

// See counts a signal's usage. It reports whether that changed anything.
func (m *Meter) See(sig telemetry.Signal) bool {
	u := sig.Usage
	if sig.Kind != telemetry.UsageSeen || u == nil || u.Estimate {
		return false
	}
	if u.Input == 0 && u.CacheRead == 0 && u.CacheWrite == 0 && u.Output == 0 {
		return false // how full the context is, and no call
	}
	b := m.book(sig.Source)
	chain := b.main[sig.Session]
	switch {
	case sig.Side != "":
		chain = &b.side
	case sig.Agent != "":
		chain = &b.agents
	case chain == nil:
		chain = &Calls{}
		b.main[sig.Session] = chain
	}
	name := callName{sig.Session, u.ID, u.Request}
	if u.ID == "" && u.Request == "" { // it has no name, so nothing repeats it
		chain.add(*u, 1)
		return true
	}
	if known := b.calls[name]; known != nil {
		if u.Output <= known.usage.Output {
			return false
		}
		known.chain.add(known.usage, -1)
		known.chain, known.usage = chain, *u
		chain.add(*u, 1)
		return true
	}
	chain.add(*u, 1)
	b.calls[name] = &entry{chain, *u}
	b.order = append(b.order, name)
	if len(b.order) > maxCalls {
		delete(b.calls, b.order[0])
		b.order = b.order[1:]
	}
	return true
}

// Total is what was counted so far.
func (m *Meter) Total() Usage {
	var u Usage
	if b := m.best(func(b *book) bool { return b.agents.Calls > 0 }); b != nil {
		u.Agents = b.agents
	}
	if b := m.best(func(b *book) bool { return b.side.Calls > 0 }); b != nil {
		u.Side = b.side
	}
	named := false
	for session := range m.sessions() {
		b := m.best(func(b *book) bool { return b.main[session] != nil })
		u.Main.plus(*b.main[session])
		named = true
	}
	// Calls of no named session may be those of a named one.
	if b := m.best(func(b *book) bool { return b.main[""] != nil }); b != nil && !named {
		u.Main.plus(*b.main[""])
	}
	return u
}

// sessions are those that any source named.
func (m *Meter) sessions() map[string]bool {
	all := map[string]bool{}
	for _, b := range m.books {
		for session := range b.main {
			if session != "" {
				all[session] = true
			}
		}
	}
	return all
}

// best is the book of the best source of which tells holds, nil without one.
func (m *Meter) best(tells func(*book) bool) *book {
	var best *book
	for _, b := range m.books {
		if tells(b) && (best == nil || worth(b.source) > worth(best.source)) {
			best = b
		}
	}
	return best
}

// worth ranks sources by how completely they tell a session's calls. What the
// harness keeps of itself is complete; what it sends may be lost on the way.
func worth(source string) int {
	switch source {
	case "transcript", "rollout", "store":
		return 4
	case "stream":
		return 3
	case "otlp":
		return 2
	case "hook":
		return 1
	}
	return 0
}

func (m *Meter) book(source string) *book {
	for _, b := range m.books {
		if b.source == source {
			return b
		}
	}
	b := &book{source: source, main: map[string]*Calls{}, calls: map[callName]*entry{}}
	m.books = append(m.books, b)
	return b
}
