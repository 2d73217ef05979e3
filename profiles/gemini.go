package profiles

import (
	"path/filepath"
	"slices"

	"lifeloop/attempt"
	"lifeloop/telemetry/gemini"
)

// geminiProfile is the profile of Gemini CLI, as seen on 0.61.0. A launch gets no
// hooks: the one way to hand it some for that launch alone takes the place of
// the administrator's settings. Its hooks are those of host apply. It gets the
// id of its session, which is the end of its chat file's name.
func geminiProfile() Profile {
	p := plain("gemini", "gemini")
	p.Tested = []string{"0.61.0"}
	p.places = geminiPlaces
	p.Hooks = gemini.Hooks{}
	p.Transcript = Source{Name: "transcript", Decoder: gemini.Chat}
	p.Kinds = []Source{
		{Name: "telemetry", Decoder: gemini.Telemetry, Form: Values},
		{Name: "stream", Decoder: gemini.Stream},
		{Name: "log", Decoder: gemini.Logs, Form: Whole},
	}
	p.Prepare = prepareGemini
	p.Quit = sigTERM // and then it exits 0, whatever it was doing
	p.ExitCodes = geminiExitCodes()
	p.Resume, p.anySession = resumeGemini, anyUUID
	p.Install = installGemini
	return p
}

// geminiWithoutHooks is what lives on hooks alone.
var geminiWithoutHooks = []string{
	"frame.opening", "frame.ending", "placement.pre_session", "placement.pre_frame_trailing", "telemetry.hooks",
}

// geminiWithoutChat is what the chat file tells, and without hooks nothing else.
var geminiWithoutChat = []string{
	"frame.opened", "frame.ended", "context.pressure_observed", "context_pressure", "context.compacted",
	"session_identity.harness_session_id", "telemetry.transcript",
}

func prepareGemini(argv []string, h Host) (Launch, error) {
	l, err := withoutHooks(argv, h, "Gemini CLI takes no hooks for one launch, and installed ones are silent below the wrapper", geminiWithoutHooks...)
	if err != nil {
		return l, err
	}
	line := parseGemini(argv[1:])
	if line.command != "" || line.has("--help", "--version", "--list-extensions", "--list-sessions", "--delete-session") {
		l.Plain, l.Weak = true, nil
		return l, nil
	}
	l.OSC, l.OSCDecoder = []int{0}, gemini.OSC
	if line.has("--resume") {
		l.Cause = "resume"
	}
	if (line.has("--prompt") || !h.Terminal) && !line.has("--acp", "--experimental-acp") {
		l.Evidence = ByLastTurn
	}
	switch {
	case line.has("--session-id") && h.again() && h.NewID != "":
		// Gemini CLI begins no session of an id that there was.
		l.Argv, l.SessionID = slices.Concat(argv[:1], line.with(argv[1:], "--session-id", h.NewID)), h.NewID
	case line.has("--session-id"):
		l.SessionID = line.values["--session-id"]
	case line.has("--resume"):
		l.SessionID = sessionUUID(line.values["--resume"]) // else it is a number, or the latest one
	case line.has("--session-file", "--acp", "--experimental-acp"):
		// It gets its id elsewhere.
	case h.NewID != "" && !h.NoHooks:
		l.SessionID = h.NewID
		l.Argv = slices.Concat(argv[:1], []string{"--session-id", h.NewID}, argv[1:])
	}
	home := h.home("GEMINI_CLI_HOME", ".")
	if end := chatName(l.SessionID); end != "" && home != "" {
		// The folder between is named after the project, by a list that the first
		// start in it writes. A cleared context may go on in a second file.
		l.Sources = append(l.Sources, Source{Name: "transcript", Decoder: gemini.Chat,
			Path: filepath.Join(home, ".gemini", "tmp"), Pattern: "*/chats/session-*-" + end + ".jsonl"})
		return l, nil
	}
	const reason = "the id of the session is not known before it runs, and without it neither is its chat file"
	l.lack(reason, geminiWithoutChat...)
	if !h.Terminal {
		l.lack(reason, "session.started") // there is no title that reports it either
	}
	return l, nil
}

// geminiExitCodes are those of print mode that tell a cause. With
// --output-format json or stream-json an error of the API is its HTTP status,
// of which a process passes on the lowest eight bits; as text it is 1.
func geminiExitCodes() map[int]attempt.Cause {
	return map[int]attempt.Cause{
		41:        attempt.Fatal,   // no login, or one that is not accepted
		42:        attempt.Fatal,   // no prompt; a session that is there already, or is not
		52:        attempt.Fatal,   // settings that cannot be read
		55:        attempt.Fatal,   // a folder that is not trusted
		130:       attempt.Aborted, // Ctrl-C
		400 % 256: attempt.Fatal,
		401 % 256: attempt.Fatal,
		403 % 256: attempt.Fatal,
		429 % 256: attempt.RateLimit,
		500 % 256: attempt.ServerError,
		503 % 256: attempt.ServerError,
	}
}

// chatName is how the name of a session's chat file ends: as its id begins.
func chatName(id string) string {
	for _, r := range id {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-':
		default:
			return "" // no id that Gemini CLI takes
		}
	}
	return id[:min(8, len(id))]
}

// geminiHooks are the hooks that tell a client something. Called without a
// wrapper, a tool's or a dialog's hook has nobody to tell and nothing to pass
// on, and the others run before every request to the model, or for every piece
// of its answer. Time-outs are in milliseconds.
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
	return installation("gemini", filepath.Join(dir, ".gemini", "settings.json"), project, slices.Clone(geminiHooks), h)
}

func geminiPlaces(h Host, chat Source) []Place {
	home := h.home("GEMINI_CLI_HOME", ".")
	if home == "" {
		return nil
	}
	type record struct {
		SessionID   string `json:"sessionId"`
		ProjectHash string `json:"projectHash"`
		Kind        string `json:"kind"`
	}
	return []Place{{Source: chat, Dir: filepath.Join(home, ".gemini", "tmp"), Pattern: "*/chats/session-*.jsonl",
		Whose: byRecords(func(r record, dir string) (session string, here, done bool) {
			if r.Kind != "main" {
				return "", false, true
			}
			return r.SessionID, r.ProjectHash == digest(dir), true // of the folder's path
		})}}
}
