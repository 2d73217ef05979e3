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

// Usage is what a session's model calls cost, by the chain they were made for:
// the session's own turns, those of its sub-agents, and calls beside both
// (titles, compactions).
type Usage struct {
	Main   Calls `json:"main"`
	Agents Calls `json:"agents"`
	Side   Calls `json:"side"`
}

// A Meter adds up model calls. Each counts once, whoever repeats it: records of
// one (session, id, request) are one call, and the one with the most output is
// what it cost. Several sources tell the same calls under names that cannot be
// joined, so each source is added up for itself, and each chain is told by the
// best source that tells it at all. The zero value is ready.
type Meter struct{ books []*book }

// maxCalls bounds how many calls of one source are remembered. A repeat of an
// older one counts again; harnesses repeat a call within the same turn, or
// copy a whole session into a new one, whose id is another.
const maxCalls = 1 << 15

// A book is what one source told.
type book struct {
	source string
	usage  Usage
	calls  map[callName]*entry
	order  []callName // oldest first
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
	chain := &b.usage.Main
	switch {
	case sig.Side != "":
		chain = &b.usage.Side
	case sig.Agent != "":
		chain = &b.usage.Agents
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
	var best struct{ main, agents, side *book }
	better := func(have **book, b *book, c Calls) {
		if c.Calls > 0 && (*have == nil || worth(b.source) > worth((*have).source)) {
			*have = b
		}
	}
	for _, b := range m.books {
		better(&best.main, b, b.usage.Main)
		better(&best.agents, b, b.usage.Agents)
		better(&best.side, b, b.usage.Side)
	}
	var u Usage
	if best.main != nil {
		u.Main = best.main.usage.Main
	}
	if best.agents != nil {
		u.Agents = best.agents.usage.Agents
	}
	if best.side != nil {
		u.Side = best.side.usage.Side
	}
	return u
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
	b := &book{source: source, calls: map[callName]*entry{}}
	m.books = append(m.books, b)
	return b
}
