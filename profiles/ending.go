package profiles

// Evidence says what shows that a launch did what it was asked for. The exit
// code that it had is recorded beside it in any case.
type Evidence string

const (
	// ByExit: an exit code of 0.
	ByExit Evidence = "exit"
	// ByLastTurn: 0 says too little, for the harness exits so too when it is cut
	// short. A last turn that was told must have completed; where none was, it is
	// ByExit. Another code than 0 is a failure in any case.
	ByLastTurn Evidence = "last_turn"
)

// The signals that a profile may name, by their numbers on Linux: a pure package
// has no system to ask.
const (
	sigINT  = 2
	sigTERM = 15
)
