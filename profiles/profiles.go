// Package profiles says how to run a harness here so that it tells us what it
// does: the arguments and environment to add, the files to watch, the form of
// a hook's answer. It is data and pure functions: it writes nothing and asks
// the world only through [Host].
//
// It refuses to change anything of the user's: what is injected is injected
// into one launch, by arguments, environment and files of our own.
//
//	p, _ := profiles.For("claude")
//	l, err := p.Prepare(argv, host)
//	// write l.Files, start l.Argv with l.Env, watch l.Sources
package profiles

import (
	"fmt"

	"lifeloop/attempt"
	"lifeloop/telemetry"
)

// Host is what a profile may know of the world while it prepares a launch.
type Host struct {
	Env       []string // the wrapper's own environment
	Dir       string   // working folder of the launch, absolute
	Exe       string   // absolute path of this program
	Hook      []string // the words that a harness calls us back by, an event behind them; the first an absolute path
	RunDir    string   // absolute; a 0700 folder of ours that Launch.Files may lie in
	Socket    string   // the session's door, told to the harness's children as LIFELOOP_SOCKET
	SessionID string   // the wrapper's session id (LIFELOOP_SESSION_ID)
	NewID     string   // a fresh UUID that the harness may be told to use as its own session id
	Terminal  bool     // the harness will have a terminal
	NoHooks   bool     // the user asked that no hooks be injected
	OTLP      string   // base URL of a receiver of ours that the harness is to export to; empty: it is not asked
	ReadFile  func(path string) ([]byte, error)
	Real      func(path string) string // the path without symbolic links; nil: as it is
	// Number counts the launches of one session of ours from 1; 0 is 1. Each but
	// the first finds what an earlier one left: its files are still there, and the
	// id of its harness session is taken.
	Number int
	// Resume is the id of the harness session to go on with, one that an earlier
	// launch of this command line had. Empty: whatever the command line says.
	Resume string
}

// A Launch is a prepared start of a harness.
type Launch struct {
	Argv    []string
	Env     []string // the whole environment
	Files   []File   // to be written, 0600, before the start
	Sources []Source // what to watch from the start
	OSC     []int    // terminal OSC numbers whose text a decoder understands
	// OSCDecoder is the decoder of those texts.
	OSCDecoder func() telemetry.Decoder
	// SessionID is the harness session id that the harness was told to use,
	// empty when it chooses its own.
	SessionID string
	// Cause is why the harness session begins, as far as the command line
	// tells: "resume", "fork", "unknown" where a person will choose, and empty
	// for a start from nothing.
	Cause string
	// Hooks says that hooks were injected and are expected to be heard.
	Hooks bool
	// Statusline says that the harness will report its window size itself, so
	// a usage without a window can wait for it.
	Statusline bool
	// Export says what of its telemetry the harness exports to Host.OTLP.
	Export Export
	// Weak lists capabilities that this launch cannot have, with the reason.
	Weak []Weakness
	// Plain says that this is not a session at all (`--version`, a login): run
	// it, inject nothing, expect nothing.
	Plain bool
	// Resumes says that the harness session of this launch can be gone on with
	// by its id, in a later launch with Host.Resume.
	Resumes bool
	// Evidence says what shows that this launch did what it was asked for.
	Evidence Evidence
}

// An Export is telemetry on its way to us.
type Export struct {
	Decoder func() telemetry.Decoder // of the log bodies that come; nil when none will
	Chain   string                   // where they would have gone without us, and are to be passed on to; empty when nowhere
	// Headers go along with what is passed on, beside those that it came with.
	Headers map[string]string
}

// A Weakness is a capability that a launch lacks, and why.
type Weakness struct{ Capability, Reason string }

// A File is one file that must lie there before the start.
type File struct {
	Path string
	Data []byte
}

// A Source is one file that the harness writes, or the files of one name.
type Source struct {
	Name    string                   // the source's name in evidence: "transcript", "registry", "rollout"
	Decoder func() telemetry.Decoder // nil: its records are not decoded
	Path    string                   // absolute; "{pid}" stands for the harness's process id; empty when a signal's Path tells it
	// Pattern, when there is one, says that Path is a folder, and means each file
	// below it whose path from there matches, element by element as in
	// filepath.Match. It must name the session: a file that merely lies there is
	// nobody's.
	Pattern string
	Form    Form // how it grows, and what one record of it is
	// Beside is a Pattern of more files of the same form, in the folder that is
	// named as the file is without its extension: those of its sub-agents.
	Beside string
	// User and Password are those of a server: a name, and the variable of the
	// environment that holds the password.
	User, Password string
	// Blind says that it tells how full the context is, and not that it was
	// compacted.
	Blind bool
	// Unordered says that what is written together may stand in any order, and
	// that the records' times tell the right one.
	Unordered bool
	// Query asks for the records of a Rows source; see [Rows].
	Query string
}

// A Form says how a source grows, and what one record of it is.
type Form string

const (
	// Lines are appended; a record is a line.
	Lines Form = ""
	// Values are JSON values appended one behind another, over as many lines as
	// they like; a record is one value.
	Values Form = "values"
	// Whole files are rewritten at each change; a record is all of one.
	Whole Form = "whole"
	// Stamp files are activity files: that one changes is a sign of life, and
	// nothing of it is read.
	Stamp Form = "stamp"
	// Rows are those of a SQLite database that the harness writes. Query selects
	// two columns: a number that never decreases from row to row, and the record,
	// one JSON object. It takes one argument, the number of the last row that was
	// told, 0 at first.
	Rows Form = "rows"
	// Events are those of a server that the harness runs (SSE); Path is its URL.
	Events Form = "events"
)

// HookCalls is the kind of a file of recorded hook calls, one a line:
// {"t":unix seconds,"stdin":{…}}.
const HookCalls = "hooks"

// Observable are all kinds of sources that an observer can be pointed at, the
// usual one first.
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

// A Profile is what one adapter needs.
type Profile struct {
	Adapter  string
	Programs []string // base names of the programs it is for
	// Tested are the versions whose program was run for what is claimed of it,
	// as its sources tell them. Versions between two of them were not: harnesses
	// change what they write from one to the next.
	Tested []string
	Hooks  telemetry.Dialect // nil without hooks
	// Transcript is the source that a signal's Path adds to the watched files.
	Transcript Source
	// Kinds are the other sources that an observer can be pointed at, by Name
	// and without a Path (`observe --source NAME`). Those of hooks go without
	// saying.
	Kinds []Source
	// places says where its sessions lie; nil where that is not known.
	places func(h Host, transcript Source) []Place
	// Prepare turns the user's command line into a launch. It never fails on a
	// command line that the harness itself would take.
	Prepare func(argv []string, h Host) (Launch, error)
	// Install says what belongs into the harness's own files, of the user or of
	// the project that Host.Dir lies in; nil where we know of no safe way.
	Install func(project bool, h Host) (Installation, error)

	// Quit is the signal by which the harness ends as it does by itself, telling
	// its end and losing nothing. 0: none is known, and TERM is as good as any.
	Quit int
	// ExitCodes are the exit codes that have a cause of their own. Another one
	// says no more than that it failed.
	ExitCodes map[int]attempt.Cause
	// Resume returns the command line that goes on with exactly this harness
	// session, never with the newest; terminal as in Host.Terminal. What the
	// command line says of another session is left out. A prompt is left out
	// where a person goes on by themselves, and stays where the harness answers
	// it and ends: without a prompt there is nothing for it to do. False where
	// that cannot be done, or not with certainty; nil where it never can.
	Resume func(argv []string, session string, terminal bool) ([]string, bool)
	// anySession looks like an id of its sessions.
	anySession string
}

// DecodeHook reads the input of a hook, in the profile's dialect.
func (p Profile) DecodeHook(event string, input []byte) (telemetry.HookCall, error) {
	if p.Hooks == nil {
		return telemetry.HookCall{}, fmt.Errorf("decode hook %s: adapter %s has no hooks", event, p.Adapter)
	}
	return p.Hooks.Decode(event, input)
}

// Answer renders the answer to a hook that passes context to the model; nil is
// an empty answer.
func (p Profile) Answer(event, context string) []byte {
	if p.Hooks == nil {
		return nil
	}
	return p.Hooks.Answer(event, context)
}
