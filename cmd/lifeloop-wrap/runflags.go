package main

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"lifeloop/gate"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/profiles"
)

// runFlags are the flags of run that have no counterpart in the configuration. The
// fields line, json and guard are no flags of run; runCmd sets them.
type runFlags struct {
	adapter, sessionID, events, pty string
	resume                          string // the name of the session to recover; recover replaces it with the session's id
	line                            store.CommandLine
	activity                        []string
	hooks                           string
	noHooks, noLedger, otlp, force  bool
	json                            bool
	guard                           *gate.Policy // the policy of the gate; nil if there is none
	approvalWait                    time.Duration
}

func (f *runFlags) define(fl *pflag.FlagSet) {
	fl.SetInterspersed(false) // words after CMD are arguments of CMD
	fl.StringVar(&f.adapter, "adapter", "", "`ID` of the adapter (default inferred from CMD's name)")
	fl.StringArray("client", nil, "client for every event except receipt.emitted and supervisor.tick, as `ID=CMDLINE` (repeatable)")
	fl.StringArray("require", nil, "capability that the session needs, as `CAP=LEVEL[:partial]`, where LEVEL is required, preferred or optional, and :partial accepts partial support (repeatable)")
	fl.StringArray("profile", nil, "`NAME` of a renewal profile that may be used to renew the session (repeatable)")
	fl.StringArray("meta", nil, "label of the session, as `K=V`; stored and reported, never interpreted (repeatable)")
	fl.StringVar(&f.sessionID, "session-id", "", "`UUID` for the session (default random)")
	fl.StringVar(&f.resume, "resume", "", "`SESSION` to recover after its wrapper died; runs its stored command unless CMD is given")
	fl.StringVar(&f.events, "events", "", "`FILE` to append events and receipts to, as JSON Lines; - for stderr")
	fl.StringVar(&f.pty, "pty", "auto", "`WHEN` to give CMD a pseudo-terminal (pty): auto (if stdin or stdout is a terminal), always or never")
	fl.StringArrayVar(&f.activity, "activity", nil, "`PATH` of a file whose changes show that CMD is alive (repeatable)")
	fl.StringVar(&f.hooks, "hooks", "auto", "`WHEN` to inject hooks: always, never, or auto (if they do not show on the screen, or a client, a requirement, a renewal profile or a policy needs them)")
	fl.BoolVar(&f.noHooks, "no-hooks", false, "inject no hooks; the same as --hooks never")
	fl.BoolVar(&f.otlp, "otlp", false, "receive the harness's log events (OTLP) and forward them to the user's own endpoint, if one is configured")
	fl.BoolVar(&f.noLedger, "no-ledger", false, "store no ledger")
	fl.Int("retries", 0, "retry CMD, and each fallback, at most `N` times after a failure of the harness itself, such as an exit code or a signal")
	fl.Int("max-retries", 0, "at most `N` retries in the whole session, whatever the cause; a retry that waits for the known end of a rate limit does not count (default with --retries: the value of --retries times the number of command lines, which are CMD and the fallbacks, but at least 6)")
	fl.String("backoff", "", "wait before a retry, as `KIND:BASE[:MAX]`, where KIND is fixed, linear or exponential; such as exponential:1s:1m")
	fl.StringArray("fallback", nil, "`CMDLINE` to run when CMD is not retried any more (repeatable)")
	fl.String("contain", "never", "keep all processes of the session in a control group (cgroup): never, auto (where the system allows it) or always")
	fl.Bool("archive", false, "copy the harness's transcripts into the session's folder, since harnesses delete theirs")
	fl.String("policy", "", "`FILE` with the gate policy for launches, renewals, payloads and tool calls of CMD")
	fl.String("on-limit", "off", "`WHAT` to do at a rate limit: wait, fallback, exit, or off (treat it as any other failure)")
	durationFlag(fl, &f.approvalWait, "approval-wait", 0, "how long a launch, a renewal or a tool call that needs an approval waits for lifeloop-wrap approve or deny (default 0: it does not wait)")
	// The configuration reads these flags by name.
	for _, d := range []struct {
		name  string
		value time.Duration
		text  string
	}{
		{"timeout-initial", 0, "longest silence from a launch to its first output or other sign of life (default no limit)"},
		{"timeout-inter", 0, "longest silence of a launch after its first output or other sign of life, except while a tool runs or the harness waits for the user (default no limit)"},
		{"timeout-tool", 0, "longest tool call (default no limit)"},
		{"max-duration", 0, "longest session (default no limit)"},
		{"idle-timeout", 0, "end the session, without a retry, after this time without any activity, even while a tool runs or the harness waits for the user (default no limit)"},
		{"client-drain", 5 * time.Second, "how long clients may take to answer after CMD has ended"},
		{"abort-grace", 5 * time.Second, "how long CMD may take to end after the first signal to end it, before KILL (0: KILL at once)"},
	} {
		durationFlag(fl, new(time.Duration), d.name, d.value, d.text)
	}
	fl.BoolVar(&f.force, "force", false, "accept --timeout-inter even if silence cannot be distinguished from waiting for the user")
}

// check returns an error for invalid flags before anything is started.
func (f runFlags) check(cfg config.Config, program string) error {
	u, err := uuid.Parse(f.sessionID)
	switch mode := harness.Mode(f.pty); {
	case mode != harness.Auto && mode != harness.Always && mode != harness.Never:
		return usage("--pty %s: want auto, always or never", f.pty)
	case !slices.Contains([]profiles.Injection{profiles.Auto, profiles.Always, profiles.Never}, profiles.Injection(f.hooks)):
		return usage("--hooks %s: want auto, always or never", f.hooks)
	case f.noHooks && f.hooks == string(profiles.Always):
		return usage("--no-hooks cannot be used with --hooks=always")
	case f.sessionID != "" && (err != nil || u.String() != f.sessionID):
		return usage("--session-id %s: not a UUID in lower case with hyphens", f.sessionID)
	case f.noLedger && f.guard != nil:
		return usage("--no-ledger cannot be used with a policy").withHint("a decision of the policy must be in the ledger before it takes effect")
	case f.approvalWait < 0 || f.approvalWait > 0 && f.guard == nil:
		return usage("--approval-wait needs a policy, and a positive duration")
	case program == "":
		return usage("run: the name of the program is empty")
	case cfg.SubagentFrames: // an error, because silently ignoring the setting would mislead the user
		return usage("subagent_frames is not supported by this version").withHint("remove it from the configuration")
	}
	return nil
}

// injection returns the user's choice about injecting hooks.
func (f runFlags) injection() profiles.Injection {
	if f.noHooks {
		return profiles.Never
	}
	return profiles.Injection(f.hooks)
}
