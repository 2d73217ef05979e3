// Package profiles describes how to launch each harness so that its sessions can
// be observed: arguments and environment to add, files to watch, hooks, the form
// of a hook's answer. The package consists of data and pure functions. It writes
// nothing, and reads files only through [Host].
//
// A launch changes nothing that belongs to the user. The arguments, environment and
// files that are added are for that launch alone.
//
// The parts of one harness are in files of its name: its [Profile] and launch in
// claude.go, its command line in claude_args.go, and so on. Files of other names are
// shared. Two shared files have a function for each of several harnesses: trial.go for
// those with a [Trial], and rests.go for those whose capabilities depend on sources (see
// [Rests]).
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
	"lifeloop/internal/document"
	"lifeloop/telemetry"
)

// Host describes the system to a profile that prepares a launch.
type Host struct {
	Env    []string // the wrapper's own environment
	Dir    string   // working directory of the launch, absolute
	Exe    string   // absolute path of this program
	Hook   []string // the hook command without its last word, the event; the first word is an absolute path
	RunDir string   // absolute path of a folder (mode 0700) for Launch.Files
	Socket string   // the session's socket, LIFELOOP_SOCKET for the harness and its children
	Key    string   // absolute path of the file with the key that the hooks of the launch send to Socket
	// Instructions is a URL of the wrapper, for a harness that reads one before each
	// request to its model (Profile.Asks). It is empty if there is none.
	Instructions string
	SessionID    string // the wrapper's session id (LIFELOOP_SESSION_ID)
	NewID        string // a new UUID for the harness to use as its session id
	Terminal     bool   // the harness will have a terminal
	Hooks        Injection
	// Guards is true if the launch needs hooks that are called before tool calls. These
	// hooks fail closed: if such a hook fails, the tool call is refused.
	Guards bool
	// GuardWait is how long a hook for a tool call may wait for an approval, in
	// addition to its usual limit; at most MaxGuardWait.
	GuardWait time.Duration
	// Needs names the client, policy or requirement for which the session needs hooks.
	// It is empty if nothing in the session needs hooks.
	Needs string
	// Guarded reports whether a path and all folders above it belong to root and
	// are writable by root alone. If it is nil, no path is guarded.
	Guarded  func(path string) bool
	OTLP     string // base URL of our receiver for exported telemetry; if empty, nothing is exported to us
	ReadFile func(path string) ([]byte, error)
	YAML     func(text []byte) (document.Value, error) // parses a file from ReadFile; if nil, no YAML file is read
	Real     func(path string) string                  // resolves symbolic links; if nil, links are not resolved
	// Number counts the launches of one session from 1; 0 means 1. In a later launch,
	// the files of the earlier launches still exist, and a new harness session cannot
	// have the id of an earlier one.
	Number int
	// Resume is the id of the harness session to continue, from an earlier launch
	// of this command line. If it is empty, the command line decides.
	Resume string
	// Fresh requests a new harness session for a renewal: the session and the
	// prompt in the command line are not used again.
	Fresh bool
	// Profile is the name of the renewal profile for which Install adds hooks; empty
	// if there is none.
	Profile string
}

// A Launch is a prepared start of a harness.
type Launch struct {
	Argv    []string
	Env     []string // the whole environment
	Files   []File   // files to be written with mode 0600 before the start
	Sources []Source // sources to read as soon as the harness has started
	OSC     []int    // numbers of the OSC sequences to decode
	// OSCDecoder returns a decoder for the text of the OSC sequences.
	OSCDecoder func() telemetry.Decoder
	// SessionID is the harness session id given to the harness, empty if it
	// chooses its own.
	SessionID string
	// Cause is how the harness session begins, as far as the command line shows it:
	// "resume", "fork", or "startup" if a new session certainly begins. Cause is empty if
	// a new session probably begins, and "unknown" if the user can choose an old or a
	// new session.
	Cause string
	// Hooks is true if hooks were injected and calls are expected.
	Hooks bool
	// Inherited is true if the harness finds the hooks through its environment. Its
	// tools inherit this environment. If a tool starts the harness's program again, the
	// second process calls the hooks too.
	Inherited bool
	// Guards is true if a hook of ours is called before every tool call of the
	// launch.
	Guards bool
	// Unguarded is the reason why Guards is false, although the harness can call a hook
	// before every tool call. The reason matters only if Host.Guards is set.
	Unguarded string
	// HooksShow is true if the user can see the injected hooks. With Auto, such hooks
	// are injected only if something needs them.
	HooksShow bool
	// Plugin is true if a plugin was injected that sends a stream of events to the
	// wrapper.
	Plugin bool
	// Resets is true if an injected plugin can begin a fresh session, on request.
	Resets bool
	// Clears is true if the answer to an injected hook at the end of a turn can make the
	// harness empty its context.
	Clears bool
	// Typing describes the harness's list of typed lines. In a launch without hooks, the
	// list shows when the process changes to another session. Typing.Lines is nil if
	// there is no list.
	Typing Typing
	// Chats describes the session files of a launch without hooks, if the harness also
	// writes records that show which session a process has. Otherwise Chats.Dir is empty.
	Chats Chats
	// Requests returns the decoder for the events or replies that a plugin sends, and for
	// the requests that the harness sends to the URL Host.Instructions. Requests is nil if
	// the launch uses neither such a plugin nor this URL.
	Requests func() telemetry.Requests
	// Threads is a folder in which the harness locks a file, ID.lock, for each harness
	// session that it has begun; empty if the harness has no such folder. If a running
	// harness begins another session, the lock shows this before the session's first hook.
	Threads string
	// HookAtPrompt is true if the harness calls its first hook only at the first
	// prompt.
	HookAtPrompt bool
	// Statusline is true if the harness will report the size of its context window itself.
	// If tokens in use are reported without this size, they are held until that report.
	Statusline bool
	// Export is the telemetry that the harness exports to Host.OTLP.
	Export Export
	// Overlay replaces the user's home for this launch, if it has a Root.
	Overlay Overlay
	// Locks are lock folders for which the harness may wait at its start. One file in a
	// lock folder names the owner of the lock; the owner regularly touches a second file
	// (LockFiles). If the owner has ended, the wrapper may set the times of the second
	// file to long ago, so that the harness treats the lock as abandoned.
	Locks []string
	// Weak lists capabilities that this launch cannot have, with the reason.
	Weak []Weakness
	// Plain is true if the command line starts no session (`--version`, a login).
	// Then nothing is injected and no [telemetry.Signal] is expected.
	Plain bool
	// Resumes is true if a later launch can continue this harness session by its
	// id, with Host.Resume.
	Resumes bool
	// Evidence says how a successful launch is recognized.
	Evidence Evidence
}

// Reads lists the sources that a launch reads, by their names in the manifest.
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
	if l.Typing.WorkDir != "" {
		names = append(names, p.Transcript.Name)
	}
	return names
}

// NamesTranscript reports whether the harness's hooks report the path of a
// transcript, which is then read. They do not do this for a database.
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

// An Export describes telemetry that a harness sends to the wrapper.
type Export struct {
	Decoder func() telemetry.Decoder // decodes the exported logs; nil if none are exported
	Chain   string                   // the user's own endpoint, to which all requests are forwarded; empty if there is none
	// Headers are added to forwarded requests.
	Headers map[string]string
}

// Injection is the user's choice of whether a launch injects hooks.
type Injection string

const (
	// Auto injects hooks if the user cannot see them, or if something needs them.
	Auto   Injection = "auto"
	Always Injection = "always"
	Never  Injection = "never"
)

// An Overlay is a folder that replaces the user's home for one launch. It has a
// link to each entry of the home, and additional files of ours.
type Overlay struct {
	Root    string          `json:"root"`    // absolute path of the new folder, which must not exist yet
	Folders []OverlayFolder `json:"folders"` // the first is Root itself; a folder comes before those below it
	// Merge lists names, without folders, of JSON files that are merged after the
	// launch: a member that is only in the overlay's file is added to the real file.
	Merge []string `json:"merge,omitempty"`
}

// An OverlayFolder is a folder whose entries are links to the entries of
// another folder.
type OverlayFolder struct {
	Path string `json:"path"` // relative to Root
	Real string `json:"real"` // absolute path of the other folder, which can be missing
	// Files are names of files that get a link even before the files exist, so that the
	// harness creates them in Real. Dirs are names of folders that the harness would
	// create at its start. These folders are created in Real beforehand, because a link
	// must lead to an existing folder.
	Files []string `json:"files,omitempty"`
	Dirs  []string `json:"dirs,omitempty"`
	// Removes are names of files whose links the harness may remove. If it has removed a
	// link, the file is removed from Real after the launch, unless the file was changed
	// after the link was removed.
	Removes []string `json:"removes,omitempty"`
	// Ours are names of our own entries, which are neither linked nor moved to Real. Other
	// entries that the harness creates are moved to Real after the launch.
	Ours []string `json:"ours,omitempty"`
}

// A Weakness is a capability that a launch does not have, with the reason.
type Weakness struct{ Capability, Reason string }

// A File is one file to be written before the start.
type File struct {
	Path string
	Data []byte
}

// A Source is a file that the harness writes, a set of files of one form, or a server
// that the harness runs.
type Source struct {
	Name    string                   // the source's name in evidence: "transcript", "registry", "rollout"
	Decoder func() telemetry.Decoder // if nil, the records are not decoded
	Path    string                   // absolute; "{pid}" is replaced by the harness's process id; empty if a telemetry.Signal gives the path
	// Pattern, if not empty, makes Path a folder. It selects the files below Path
	// whose relative path matches, element by element as in filepath.Match. It must
	// contain the session's id, because other files in the folder belong to other
	// sessions.
	Pattern string
	Form    Form // how the file grows, and what one record is
	// Beside is a Pattern for the files of sub-agents, which have the same form. It
	// applies below the folder that has the file's name without the extension.
	Beside string
	// User and Password are the credentials for a server: the name of the user, and the
	// name of the environment variable that holds the password.
	User, Password string
	// Blind is true if the source reports context use but no compactions.
	Blind bool
	// Unordered is true if records that are written together can be out of time order.
	// These records are then sorted by the times in them.
	Unordered bool
	// Query asks for the records of a Rows source; see [Rows]. Prompted, if not empty, is
	// a second query of the same database. The rows of Prompted are numbered as those of
	// Query, and the second column is the id of a session that got a prompt.
	Query, Prompted string
	// Windows gives the context windows of models if the records do not contain them.
	Windows Windows
}

// Typing describes a harness's list of the lines that users typed in its terminals. Each
// line in the list has the id of the first session of the process in which it was typed.
// A prompt is recorded in the file of the session that got it. So if a session file has a
// prompt with the text of a typed line, this shows which session the process has.
type Typing struct {
	// Place and WorkDir are set if the harness itself chooses its first session: neither
	// the id nor the folder of that session is then known at the start. WorkDir is the
	// working directory without symbolic links.
	Place   Place
	WorkDir string

	List    string // the list's path, relative to the folder of the session files
	Pattern string // pattern of the names of session files
	// Lines reads the list. whole is false if list ends in the middle of a value.
	Lines  func(list []byte) (lines []telemetry.Typed, whole bool)
	Prompt func(record []byte) (line telemetry.Typed, ok bool) // reads a record of a session file
}

// Chats describes the session files of a harness that also writes records outside these
// files. Each of these records has the pid of a process and the id of the session that
// this process has. In Pattern and New, {session} is replaced by that id.
type Chats struct {
	Dir     string // absolute folder of all session files; empty if they are not known
	Pattern string // pattern of the path of a session's file below Dir, matched element by element
	New     string // absolute path of the file that a new session of this launch gets
	// Begins reads the beginning of a file. at is the earliest time of a record. cause is
	// how the session began: "clear", "unknown", or "fork" if the file begins with copies
	// of another session's records. cause is empty as long as the file does not show how
	// the session began.
	Begins func(head []byte) (at time.Time, cause string)
}

// Windows are the context windows of models, as the harness's own files give them.
type Windows struct {
	// Of returns the context window of a model, and the kind of file that gives the
	// window, as a value of telemetry.Signal.WindowSource. It returns 0 if the window is
	// unknown. Of is nil if no file with windows is known.
	Of func(model string) (tokens int64, source string)
	// Dir is the working folder whose settings give the windows. The windows apply only
	// to sessions that the source reports in this folder, or to all if Dir is empty.
	Dir string
}

// A Form says how a source grows, and what one of its records is.
type Form string

const (
	// Lines are appended; a record is a line.
	Lines Form = ""
	// Values are appended JSON values, each over any number of lines; a record is
	// one value.
	Values Form = "values"
	// Whole is a file that is rewritten at each change; a record is the whole file.
	Whole Form = "whole"
	// Stamp files are activity files: a change is a sign of life, and the content
	// is not read.
	Stamp Form = "stamp"
	// Rows come from a SQLite database that the harness writes. Query selects two
	// columns: a number that never decreases from row to row, and the record, one
	// JSON object. The argument of Query is the number of the last row that was
	// read, or 0 at the beginning.
	Rows Form = "rows"
	// Events come from a server that the harness runs (SSE); Path is its URL.
	Events Form = "events"
)

// HookCalls is the name of the source whose file holds recorded hook calls, one per line:
// {"t":unix seconds,"stdin":{…}}.
const HookCalls = "hooks"

// Observable lists the kinds of sources that `observe` can read, with the usual
// one first.
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

// A Profile describes one adapter: the support for one harness or, for [Generic], for any
// other program.
type Profile struct {
	Adapter  string
	Programs []string // base names of the harness's programs
	// Tested are the versions with which the adapter's claims were verified, as
	// the harness reports them. Versions in between were not tested, and harnesses
	// change their output from version to version.
	Tested []string
	// Package is the name of the npm package that contains the harness's program. It is
	// set only if no source of a launch reports the version; see PackageVersion.
	Package string
	// Estimates is true if, after a compaction, the harness writes its own estimate of the
	// number of tokens in the context.
	Estimates bool
	Hooks     telemetry.Dialect // the format of the harness's hooks; nil if it has none
	// Transcript describes a file whose path a [telemetry.Signal] reports in its field
	// Path, or a database that observe reads.
	Transcript Source
	// Kinds are the other sources that `observe --source NAME` can read. They have
	// no Path. Recorded hook calls are not listed.
	Kinds    []Source
	sessions stored // zero if it is not known where the harness stores sessions
	// windows implements WithWindows; nil if no file of the harness gives the context
	// windows of models.
	windows func(s Source, h Host) Windows
	// Asks is true if the harness can read Host.Instructions, a URL, before each request.
	Asks bool
	// Prepare turns the user's command line into a launch. It accepts every
	// command line that the harness accepts.
	Prepare func(argv []string, h Host) (Launch, error)
	// Trial returns a short session for `doctor --probe`. Its model server is at the URL
	// model, and dir is its working folder. Trial is nil if no such session is known.
	Trial func(model, dir string) Trial
	// Install returns what to add to the harness's own files: those of the user, or, if
	// project is set, those of the project that contains Host.Dir. Install is nil if no
	// safe way is known.
	Install func(project bool, h Host) (Installation, error)

	// Quit is the signal on which the harness ends normally: it reports its end
	// and loses no data. 0 means that no such signal is known; then TERM is used.
	Quit int
	// Keys make the harness begin a fresh session in its terminal.
	Keys Keys
	// ExitCodes maps exit codes to causes. A code that is neither in the map nor 0 means
	// that the harness failed; such a code does not show the cause.
	ExitCodes map[int]attempt.Cause
	// prints reports whether the harness, started with the arguments args, answers the
	// prompt in them and exits. args does not contain the program. prints is nil if resume
	// is nil.
	prints func(args []string) bool
	// resume implements Resume, for arguments without the program; nil if no
	// command line can be resumed.
	resume func(args []string, session string, terminal bool) ([]string, bool)
	// ask implements Ask, for arguments without the program; nil if the harness
	// cannot be asked in this way.
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

// Refuse returns a function that encodes the refusal of a tool call as a hook's
// answer; nil if no hook of the harness can refuse one.
func (p Profile) Refuse() func(event string, d telemetry.Decision, reason string) []byte {
	if r, ok := p.Hooks.(telemetry.Refuser); ok {
		return r.Refuse
	}
	return nil
}

// Clear returns a function that encodes a hook's answer that empties the context; nil if no
// hook of the harness can do so.
func (p Profile) Clear() func(event, reason string) []byte {
	if c, ok := p.Hooks.(telemetry.Clearer); ok {
		return c.Clear
	}
	return nil
}

// Answer encodes the answer to a hook, with context for the model; nil is an
// empty answer.
func (p Profile) Answer(event, context string) []byte {
	if p.Hooks == nil {
		return nil
	}
	return p.Hooks.Answer(event, context)
}
