package profiles

// Evidence is what shows that a launch succeeded. The exit code is recorded in
// any case.
type Evidence string

const (
	// ByExit means an exit code of 0.
	ByExit Evidence = "exit"
	// ByLastTurn means an exit code of 0 and a completed last turn, for a harness
	// that also exits with 0 when it is interrupted. If no turn was reported it is
	// the same as ByExit.
	ByLastTurn Evidence = "last_turn"
)

// Signals by their numbers on Linux, since a pure package cannot import syscall.
const (
	sigINT  = 2
	sigTERM = 15
)
