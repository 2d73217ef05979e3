// Package profiles describes how to launch each harness so that its sessions
// can be observed: arguments and environment to add, files to watch, hooks, the
// form of a hook's answer. It is data and pure functions. It writes nothing, and
// reads files only through [Host].
//
// A launch changes nothing that belongs to the user. The arguments, environment and
// files that are added are for that launch alone.
//
// All parts of one harness are in files of its name: its [Profile] and launch in
// claude.go, its command line in claude_args.go, and so on. Files of other names
// are shared.
//
//	p, _ := profiles.For("claude")
//	l, err := p.Prepare(argv, host)
//	// write l.Files, start l.Argv with l.Env, watch l.Sources
package profiles

import (
	"fmt"
	"slices"
	"time"

	"lifeloop/attempt"
	"lifeloop/telemetry"
)

// Host is what a profile knows of the system while it prepares a launch.
type Host struct {
	Env    []string // the wrapper's own environment
	Dir    string   // working directory of the launch, absolute
	Exe    string   // absolute path of this program
	Hook   []string // the hook command without its last word, the event; the first word is an absolute path
	RunDir string   // absolute; a 0700 folder of ours for Launch.Files
	Socket string   // the session's socket, LIFELOOP_SOCKET for the harness and its children
	Key    string   // absolute path of the file with the key of the launch
	// Instructions is a URL of ours, for a harness that reads one before each request
	// (Profile.Asks). It is empty if there is none.
	Instructions string
	SessionID    string // the wrapper's session id (LIFELOOP_SESSION_ID)
	NewID        string // a new UUID for the harness to use as its session id
	Terminal     bool   // the harness will have a terminal
	Hooks        Injection
	// Guards asks for hooks that fail closed, for the tool calls of the harness.
	Guards bool
	// GuardWait is how long such a hook may wait for an approval, beyond its usual
	// limit; at most MaxGuardWait.
	GuardWait time.Duration
	// Needs says what needs hooks: a client, a policy or a requirement. It is empty
	// if the session has no use for what only hooks can give.
	Needs string
	// Guarded reports whether a path and all folders above it belong to root and
	// are writable by root alone. If it is nil, no path is guarded.
	Guarded  func(path string) bool
	OTLP     string // base URL of our receiver for exported telemetry; empty: ask for no export
	ReadFile func(path string) ([]byte, error)
	Real     func(path string) string // resolves symbolic links; nil: paths stay as they are
	// Number counts the launches of one session from 1; 0 means 1. A later launch
	// finds the files of the earlier ones, and their harness session id is taken.
	Number int
	// Resume is the id of the harness session to continue, from an earlier launch
	// of this command line. If it is empty, the command line decides.
	Resume string
	// Fresh asks for a new harness session for a renewal: the command line's own
	// session and its prompt are not used again.
	Fresh bool
	// Profile is the integration profile that installed hooks serve; empty: none.
	Profile string
}

// A Launch is a prepared start of a harness.
type Launch struct {
	Argv    []string
	Env     []string // the whole environment
	Files   []File   // to be written with mode 0600 before the start
	Sources []Source // to be watched from the start
	OSC     []int    // numbers of the OSC sequences to decode
	// OSCDecoder makes a decoder for the text of these sequences.
	OSCDecoder func() telemetry.Decoder
	// SessionID is the harness session id given to the harness, empty if it
	// chooses its own.
	SessionID string
	// Cause is the cause of the harness session as the command line shows it:
	// "resume", "fork", "unknown" if the user will choose, empty for a new session.
	Cause string
	// Hooks is true if hooks were injected and calls are expected.
	Hooks bool
	// Guards is true if every tool call of the launch asks a hook of ours.
	Guards bool
	// Unguarded is the reason why it does not, if Host.Guards asked for that and the
	// harness has such a hook.
	Unguarded string
	// HooksShow is true if these hooks are visible, so injecting them was a choice.
	HooksShow bool
	// Plugin is true if a plugin of ours was injected that streams events.
	Plugin bool
	// Requests makes the decoder of that stream and of the readings of
	// Host.Instructions; nil without either.
	Requests func() telemetry.Requests
	// HookAtPrompt is true if the first hook is called with the first prompt.
	HookAtPrompt bool
	// Statusline is true if the harness will report its window size itself, so that
	// a usage without a window can wait for that report.
	Statusline bool
	// Export is the telemetry that the harness exports to Host.OTLP.
	Export Export
	// Overlay replaces the user's home for this launch, if it has a Root.
	Overlay Overlay
	// Locks are folders that lock something for which this launch waits. A file
	// meta.json in them has the pid and the hostname of their owner, and the time of a
	// file heartbeat shows that it still works. If it has ended, its lock may be set
	// to a time long ago, by which the harness takes it for abandoned.
	Locks []string
	// Weak lists capabilities that this launch cannot have, with the reason.
	Weak []Weakness
	// Plain is true if the command line starts no session (`--version`, a login).
	// Nothing is injected and nothing is expected.
	Plain bool
	// Resumes is true if a later launch can continue this harness session by its
	// id, with Host.Resume.
	Resumes bool
	// Evidence is what shows that the launch succeeded.
	Evidence Evidence
}

// Reads lists the sources of a launch, by their names in the manifest.
func (p Profile) Reads(l Launch) []string {
	var names []string
	if l.Hooks {
		names = append(names, "hooks")
		if p.NamesTranscript() {
			names = append(names, p.Transcript.Name)
		}
	}
	if l.Plugin {
		names = append(names, "plugin")
	}
	if l.Statusline {
		names = append(names, "statusline")
	}
	if l.OSCDecoder != nil {
		names = append(names, "terminal")
	}
	for _, s := range l.Sources {
		names = append(names, s.Name)
	}
	return names
}

// NamesTranscript reports whether the hooks of a launch name a transcript, which is
// then read. A database is not named.
func (p Profile) NamesTranscript() bool {
	return p.Transcript.Decoder != nil && p.Transcript.Form != Rows
}

// ReportsWaiting says whether a launch has a source that reports that the harness
// waits for the user.
func (p Profile) ReportsWaiting(l Launch) bool {
	reports := func(decoder func() telemetry.Decoder) bool {
		return decoder != nil && telemetry.ReportsWaiting(decoder())
	}
	return l.Hooks && telemetry.ReportsWaiting(p.Hooks) || reports(l.OSCDecoder) ||
		l.Plugin && telemetry.ReportsWaiting(l.Requests()) ||
		slices.ContainsFunc(l.Sources, func(s Source) bool { return reports(s.Decoder) })
}

// An Export is telemetry that a harness sends to us.
type Export struct {
	Decoder func() telemetry.Decoder // of the exported logs; nil if none are exported
	Chain   string                   // the user's own endpoint, to which all is forwarded; empty if there is none
	// Headers are added to forwarded requests.
	Headers map[string]string
}

// Injection is the user's choice of whether a launch injects hooks.
type Injection string

const (
	// Auto injects hooks where they cannot be seen, and where something needs them.
	Auto   Injection = "auto"
	Always Injection = "always"
	Never  Injection = "never"
)

// An Overlay is a folder that replaces the user's home for one launch. It has a
// link to each entry of the home, beside files of ours.
type Overlay struct {
	Root    string          `json:"root"`    // absolute; it must not exist yet
	Folders []OverlayFolder `json:"folders"` // the first is Root itself; a folder comes before those below it
	// Merge are names of JSON files whose objects are merged: a member that only
	// the overlay has is added to the real file.
	Merge []string `json:"merge,omitempty"`
}

// An OverlayFolder is a folder whose entries are links to those of another.
type OverlayFolder struct {
	Path string `json:"path"` // relative to Root
	Real string `json:"real"` // absolute; it may be missing
	// Files are names that are linked although they do not exist yet, so that the
	// program creates them in Real. Dirs are folders that the program creates in
	// Real at its start. They are created before, because a link to a folder needs
	// an existing folder.
	Files []string `json:"files,omitempty"`
	Dirs  []string `json:"dirs,omitempty"`
	// Ours are names that are neither linked nor moved to Real.
	Ours []string `json:"ours,omitempty"`
}

// A Weakness is a capability that a launch lacks, with the reason.
type Weakness struct{ Capability, Reason string }

// A File is one file to be written before the start.
type File struct {
	Path string
	Data []byte
}

// A Source is a file that the harness writes, or a set of files of one form.
type Source struct {
	Name    string                   // the source's name in evidence: "transcript", "registry", "rollout"
	Decoder func() telemetry.Decoder // nil: its records are not decoded
	Path    string                   // absolute; "{pid}" is replaced by the harness's process id; empty if a signal has the path
	// Pattern, if not empty, makes Path a folder. It selects the files below Path
	// whose relative path matches, element by element as in filepath.Match. It must
	// contain the session's id, since other files there belong to other sessions.
	Pattern string
	Form    Form // how it grows, and what one record is
	// Beside is a Pattern for the files of sub-agents. They have the same form and
	// are in the folder named like the file without its extension.
	Beside string
	// User and Password are for a server: a name, and the environment variable
	// that holds the password.
	User, Password string
	// Blind is true if the source reports context use but no compactions.
	Blind bool
	// Unordered is true if records written together may be in any order. The times
	// of the records give the right order.
	Unordered bool
	// Query asks for the records of a Rows source; see [Rows]. Prompted, if not empty,
	// is a query with the same numbers whose records are the sessions that got a
	// prompt.
	Query, Prompted string
}

// A Form is how a source grows, and what one record of it is.
type Form string

const (
	// Lines are appended; a record is a line.
	Lines Form = ""
	// Values are appended JSON values, each over any number of lines; a record is
	// one value.
	Values Form = "values"
	// Whole files are rewritten at each change; a record is the whole file.
	Whole Form = "whole"
	// Stamp files are activity files: a change is a sign of life, and the content
	// is not read.
	Stamp Form = "stamp"
	// Rows come from a SQLite database that the harness writes. Query selects two
	// columns: a number that never decreases from row to row, and the record, one
	// JSON object. Its argument is the number of the last row that was read, 0 at
	// first.
	Rows Form = "rows"
	// Events come from a server that the harness runs (SSE); Path is its URL.
	Events Form = "events"
)

// HookCalls names a file of recorded hook calls, one per line:
// {"t":unix seconds,"stdin":{…}}.
const HookCalls = "hooks"

// Observable lists the kinds of sources that `observe` can read, the usual one
// first.
func (p Profile) Observable() []Source {
	var out []Source
	if p.Transcript.Decoder != nil {
		out = append(out, p.Transcript)
	}
	if p.Hooks != nil {
		out = append(out, Source{Name: HookCalls, Decoder: func() telemetry.Decoder { return telemetry.HookCalls(p.Hooks) }})
	}
	return append(out, p.Kinds...)
}

// A Profile describes one adapter.
type Profile struct {
	Adapter  string
	Programs []string // base names of its programs
	// Tested are the versions that were run to verify the adapter's claims, as its
	// sources spell them. Versions in between were not run, and harnesses change
	// their output from version to version.
	Tested []string
	// Estimates is true if the harness writes its own estimate of the context after
	// a compaction.
	Estimates bool
	Hooks     telemetry.Dialect // nil without hooks
	// Transcript is the form of a file that a signal names by its Path.
	Transcript Source
	// Kinds are the other sources that `observe --source NAME` can read. They have
	// no Path. Recorded hook calls are not listed.
	Kinds    []Source
	sessions stored // zero if their place is not known
	// Asks is true if its launches may use Host.Instructions.
	Asks bool
	// Prepare turns the user's command line into a launch. It accepts every
	// command line that the harness accepts.
	Prepare func(argv []string, h Host) (Launch, error)
	// Trial returns a short session for a probe. Its model server is at the URL model,
	// and dir is its working folder. It is nil if none is known.
	Trial func(model, dir string) Trial
	// Install returns what to add to the harness's own files, those of the user or
	// of the project around Host.Dir; nil if no safe way is known.
	Install func(project bool, h Host) (Installation, error)

	// Quit is the signal after which the harness ends normally: it reports its end
	// and loses nothing. 0: no such signal is known, and TERM is used.
	Quit int
	// ExitCodes maps exit codes to causes. Any other code is a plain failure.
	ExitCodes map[int]attempt.Cause
	// prints reports whether a command line, without the program, answers its prompt
	// and exits; nil if resume is.
	prints func(args []string) bool
	// resume is Resume without the program; nil if no command line can be resumed.
	resume func(args []string, session string, terminal bool) ([]string, bool)
	// ask is Ask without the program; nil if the harness cannot be asked in this
	// way.
	ask func(args []string, session string) ([]string, bool)
	// anySession is an example of the harness's session ids.
	anySession string
}

// DecodeHook decodes the input of a hook.
func (p Profile) DecodeHook(event string, input []byte) (telemetry.HookCall, error) {
	if p.Hooks == nil {
		return telemetry.HookCall{}, fmt.Errorf("decode hook %s: adapter %s has no hooks", event, p.Adapter)
	}
	return p.Hooks.Decode(event, input)
}

// Refuse is the function that renders the refusal of a tool call; nil if no hook of
// the harness can refuse one.
func (p Profile) Refuse() func(event string, d telemetry.Decision, reason string) []byte {
	if r, ok := p.Hooks.(telemetry.Refuser); ok {
		return r.Refuse
	}
	return nil
}

// Answer renders the answer to a hook, with context for the model; nil is an
// empty answer.
func (p Profile) Answer(event, context string) []byte {
	if p.Hooks == nil {
		return nil
	}
	return p.Hooks.Answer(event, context)
}
