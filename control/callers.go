package control

import "sync"

// Callers distinguishes the hook calls of a launched harness from those of another program
// below it. Some harnesses find their hooks by environment variables, which their tools
// inherit. If a tool starts the same harness again, the second process calls the same
// hooks with the same key.
//
// Among the launched process and its descendants, the harness is the first that calls a
// hook: each harness calls a hook before its first tool. While the harness runs, its calls
// belong to the launch. Calls of other descendants do not, with one exception: if an
// ancestor of the harness calls a hook, the ancestor becomes the harness. When the harness
// has ended, the next descendant that calls becomes the harness: some harnesses are a
// launcher that starts its child again. A call whose processes cannot be read belongs to
// the launch, because a call of the harness must never be refused. If such a call comes
// from the pid in the field direct, the call does not belong to the launch.
//
// All methods may be called from any goroutine.
type Callers struct {
	mark string

	mu       sync.Mutex // guards the fields below
	launched process    // zero before Launched
	above    []process  // the ancestors of launched
	harness  process    // zero before the first call
	direct   int        // pid of the last foreign process that connected without a hook program; 0: none
}

// A process is identified by its pid and its start time, because the system reuses pids.
type process struct {
	pid   int
	start uint64 // in clock ticks since boot
}

// NewCallers returns the callers of one launch. mark is a part of the path of the launch's
// key file. Each hook program of the launch, and a shell that runs one, has this path in
// its arguments.
func NewCallers(mark string) *Callers { return &Callers{mark: mark} }

// Launched sets the process that was launched. Before Launched is called, every call
// belongs to the launch.
func (c *Callers) Launched(pid int) {
	line := ancestry(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(line) > 0 {
		c.launched, c.above = line[0], line[1:]
	}
}

// Own reports whether the call of a process belongs to the launch. peer is the pid of the
// process that connected.
func (c *Callers) Own(peer int) bool {
	line := ancestry(peer)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.launched == process{}:
		return true
	case len(line) == 0: // the process has ended, or is not in our pid namespace
		return peer == 0 || peer != c.direct
	}
	hooks := 0
	for hooks < len(line) && mentions(line[hooks].pid, c.mark) { // skip the hook program and a shell that runs it
		hooks++
	}
	if line = line[hooks:]; len(line) == 0 {
		return true
	}
	caller, known := line[0], c.harness != process{}
	running := known && runs(c.harness)
	below := has(line, c.launched)
	switch {
	case running && caller == c.harness:
		return true
	case below && (!running || has(ancestry(c.harness.pid), caller)):
		c.harness = caller
		return true
	case !known, !running && has(c.above, caller):
		// The call belongs to the launch. Either no harness is known, and the launched
		// program has passed its work to a process that is not its descendant. Or the
		// harness has ended, and its hook now has an ancestor of the launched program as
		// its parent.
		return true
	}
	if hooks == 0 {
		c.direct = caller.pid
	}
	return false
}

// has reports whether a process is in a list.
func has(list []process, p process) bool {
	for _, q := range list {
		if q == p {
			return true
		}
	}
	return false
}
