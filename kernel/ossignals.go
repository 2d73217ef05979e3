package kernel

import "strconv"

// The signals that the kernel sends or handles.
const (
	sigINT  = 2
	sigKILL = 9
	sigTERM = 15
)

var signalNames = [...]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 19: "SIGSTOP", 20: "SIGTSTP",
	21: "SIGTTIN", 22: "SIGTTOU", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS"}

// FatalSignals returns the numbers of the signals in signalNames that end a process by
// default. The keys are the signals' names.
func FatalSignals() map[string]int {
	all := map[string]int{}
	for n, name := range signalNames {
		if name != "" && (n < 19 || n > 22) { // the signals from 19 to 22 stop a process
			all[name] = n
		}
	}
	return all
}

func signalName(n int) string {
	if 0 < n && n < len(signalNames) && signalNames[n] != "" {
		return signalNames[n]
	}
	return "signal " + strconv.Itoa(n)
}
