package telemetry

// A ToolUse is a tool call before it runs, as a hook that can refuse it reports it.
// It holds text of the session, for the gate alone: no signal, fact or log may hold
// one.
type ToolUse struct {
	Tool string // the call's id; empty if the harness names none
	Name string // the tool, as the harness names it
	Args *Sized
	Dir  string // the working directory of the call; empty if it is not reported

	// What the call touches, as far as the arguments name it.
	Commands []string // for a shell
	Paths    []PathUse
	URLs     []string
	// Opaque says that the tool is known and its arguments are not understood.
	Opaque bool
	// CanAsk says that the hook can make the harness ask its user.
	CanAsk bool
}

// A PathUse is a file or folder that a tool call touches.
type PathUse struct {
	Path string
	Op   string // read, write or delete
}

// A Decision answers a hook that asks whether a tool may run.
type Decision string

const (
	Allow Decision = "allow" // the harness decides as it does without the hook
	Deny  Decision = "deny"
	Ask   Decision = "ask" // the harness asks its user
)
