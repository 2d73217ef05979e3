package profiles

// Evidence says how a successful launch is recognized. The exit code is
// recorded in any case.
type Evidence string

const (
	// ByExit means an exit code of 0.
	ByExit Evidence = "exit"
	// ByLastTurn means an exit code of 0 and a completed last turn, for a harness
	// that also exits with 0 when it is interrupted. If no turn was reported it is
	// the same as ByExit.
	ByLastTurn Evidence = "last_turn"
)

// Signals by their numbers on Linux, because this package must not import
// syscall.
const (
	sigINT  = 2
	sigTERM = 15
)
