package profiles

import (
	"path/filepath"
	"slices"
	"strings"

	"lifeloop/attempt"
	"lifeloop/telemetry/gemini"
)

// geminiProfile is the profile of Gemini CLI, as observed with 0.61.0. Hooks are
// injected into a launch if something needs them. Without hooks, Gemini CLI's list of
// typed lines shows which session a terminal has (see Typing). In print mode the wrapper
// chooses the session's id, because the chat file's name ends with a part of that id.
func geminiProfile() Profile {
	return Profile{
		Adapter:    "gemini",
		Programs:   []string{"gemini"},
		Tested:     []string{"0.61.0"},
		Package:    "@google/gemini-cli",
		sessions:   stored{"GEMINI_CLI_HOME", ".", geminiPlace},
		Hooks:      gemini.Hooks{},
		Transcript: Source{Name: "transcript", Decoder: gemini.Chat},
		Kinds: []Source{
			{Name: "telemetry", Decoder: gemini.Telemetry, Form: Values},
			{Name: "stream", Decoder: gemini.Stream},
			{Name: "log", Decoder: gemini.Logs, Form: Whole},
		},
		Prepare:   prepareGemini,
		Trial:     trialGemini,
		Quit:      sigTERM, // on TERM, Gemini CLI exits with 0 in any state
		ExitCodes: geminiExitCodes(),
		resume:    resumeGemini,
		prints: func(args []string) bool {
			l, _, _ := parseGemini(args)
			_, headless := l.find("--prompt")
			return headless
		},
		anySession: anyUUID,
		Install:    installGemini,
	}
}

// geminiPlace is where the chats are, below the home. The folder between tmp and chats is
// named after the project.
var geminiPlace = Place{Dir: ".gemini/tmp", Pattern: "*/chats/session-*.jsonl", Whose: gemini.Owner}

// geminiTyping describes the list of typed lines, which is beside the folder of the chats.
var geminiTyping = Typing{List: "../logs.json", Pattern: "session-*.jsonl", Lines: gemini.TypedLines, Prompt: gemini.TypedPrompt}

func prepareGemini(argv []string, h Host) (Launch, error) {
	l, err := start(argv, h, nil)
	if err != nil {
		return l, err
	}
	line, command, _ := parseGemini(argv[1:])
	if command != "" || line.has("--help", "--version", "--list-extensions", "--list-sessions", "--delete-session") {
		l.Plain = true
		return l, nil
	}
	l.OSC, l.OSCDecoder = []int{0}, gemini.OSC
	if line.has("--resume") {
		l.Cause = "resume"
	}
	if (line.has("--prompt") || !h.Terminal) && !line.has("--acp", "--experimental-acp") {
		l.Evidence = ByLastTurn
	}
	choose := false // whether the wrapper chooses the id of the session
	switch {
	case line.has("--session-id") && h.again() && h.NewID != "":
		// Use a new id, because Gemini CLI rejects the id of an existing session.
		l.Argv, l.SessionID = slices.Concat(argv[:1], line.with(argv[1:], "--session-id", h.NewID)), h.NewID
	case line.has("--session-id"):
		l.SessionID = line.last("--session-id")
	case line.has("--resume"):
		l.SessionID = sessionUUID(line.last("--resume")) // empty if the value is a number or "latest"
	case line.has("--session-file", "--acp", "--experimental-acp"):
		// We cannot choose the id of this session.
	case h.NewID != "" && h.Hooks != Never:
		choose = true
	}
	interactive := h.Terminal && !line.has("--prompt", "--acp", "--experimental-acp")
	reason := l.injectGemini(line, h)
	l.Guards, l.Unguarded = reason == "" && h.Guards, reason
	if l.Hooks, l.HooksShow, l.Inherited = reason == "", reason == "", reason == ""; l.Hooks {
		l.Clears = interactive
		return l, nil // the first hook reports the id and names the chat file
	}
	l.lackSources("gemini", reason, []string{"hooks"}, "transcript", "terminal")
	home := h.home("GEMINI_CLI_HOME", ".")
	if l.SessionID == "" && l.Cause == "" && interactive && home != "" && !line.has("--worktree") && geminiTitled(home, h) {
		// Only the first prompt shows which session the process has (see Typing).
		l.Cause = "startup"
		l.Typing, l.Typing.Place, l.Typing.WorkDir = geminiTyping, geminiPlace, h.Dir
		l.Typing.Place.Dir = filepath.Join(home, geminiPlace.Dir)
		return l, nil
	}
	// A given id delays Gemini CLI's start. So the wrapper chooses an id only if neither
	// hooks nor typed lines show which session the process has.
	if choose {
		l.SessionID = h.NewID
		l.Argv = slices.Concat(argv[:1], []string{"--session-id", h.NewID}, argv[1:])
	}
	if end := chatName(l.SessionID); end != "" && home != "" {
		// The pattern does not name the folder between tmp and chats, because Gemini
		// CLI chooses the folder's name when it first starts in the project. After the
		// context was cleared, the session may continue in a second file.
		l.Sources = append(l.Sources, Source{Name: "transcript", Decoder: gemini.Chat,
			Path: filepath.Join(home, ".gemini", "tmp"), Pattern: "*/chats/session-*-" + end + ".jsonl"})
		if interactive {
			l.Typing = geminiTyping
		}
		return l, nil
	}
	var read []string
	if h.Terminal {
		read = []string{"terminal"} // the title of the terminal shows that a session has started
	}
	l.lackSources("gemini", "the session id is not known before the launch, so the chat file cannot be found", []string{"transcript"}, read...)
	return l, nil
}

// geminiExitCodes are the exit codes of print mode that show why a launch failed. After
// an API error, the exit code is the lowest eight bits of the HTTP status if
// --output-format is json or stream-json, and 1 if it is text.
func geminiExitCodes() map[int]attempt.Cause {
	return map[int]attempt.Cause{
		41:        attempt.Fatal,   // no login, or an invalid one
		42:        attempt.Fatal,   // no prompt; a new session whose id already exists, or a resumed one that does not exist
		52:        attempt.Fatal,   // invalid settings
		55:        attempt.Fatal,   // untrusted folder
		130:       attempt.Aborted, // Ctrl-C
		400 % 256: attempt.Fatal,
		401 % 256: attempt.Fatal,
		403 % 256: attempt.Fatal,
		429 % 256: attempt.RateLimit,
		500 % 256: attempt.ServerError,
		503 % 256: attempt.ServerError,
	}
}

// chatName is the end of a chat file's name: the beginning of the session id. It
// is empty for an id that Gemini CLI rejects.
func chatName(id string) string {
	if strings.ContainsFunc(id, func(r rune) bool { return r != '-' && !alphanumeric(r) }) {
		return ""
	}
	return id[:min(8, len(id))]
}

// geminiHooks are the hooks that `host apply` installs, with timeouts in
// milliseconds. Hooks of tools and dialogs are left out, because without the
// wrapper they cause no event for a client. The other hooks are left out because
// they run for every model request, or for every piece of an answer.
var geminiHooks = []InstalledHook{
	{Event: "SessionStart", Timeout: 5000},
	{Event: "SessionEnd", Timeout: 2000},
	{Event: "BeforeAgent", Timeout: 5000},
	{Event: "AfterAgent", Timeout: 5000},
}

func installGemini(project bool, h Host) (Installation, error) {
	dir := h.Dir
	if !project {
		if dir = h.home("GEMINI_CLI_HOME", "."); dir == "" {
			return Installation{}, errNoHome
		}
	}
	return installation("gemini", filepath.Join(dir, ".gemini", "settings.json"), project, geminiHooks, 1000, h)
}
