package profiles

import (
	"path/filepath"
	"slices"
)

// gemini is the profile of Gemini CLI, as seen on 0.61.0. A launch is left as
// it is: the one way to hand it hooks for that launch alone takes the place of
// the administrator's settings. Its hooks are those of host apply.
func gemini() Profile {
	p := plain("gemini", "gemini")
	p.HookDecoder = "gemini-hook"
	p.Transcript = Source{Name: "transcript", Decoder: "gemini-chat"}
	p.Kinds = []Source{
		{Name: "telemetry", Decoder: "gemini-telemetry", Form: Values},
		{Name: "stream", Decoder: "gemini-stream"},
		{Name: "log", Decoder: "gemini-logs", Form: Whole},
	}
	p.Prepare = func(argv []string, h Host) (Launch, error) {
		return withoutHooks(argv, h, "Gemini CLI takes no hooks for one launch, and installed ones are silent below the wrapper",
			"frame.opening", "frame.opened", "frame.ending", "placement.pre_session", "placement.pre_frame_trailing", "telemetry.hooks")
	}
	p.Answer = func(event, context string) []byte {
		// A tool's result, a prompt and a start; what another event is answered
		// is dropped, or makes the model go on.
		if context == "" || !slices.Contains([]string{"SessionStart", "BeforeAgent", "AfterTool"}, event) {
			return nil
		}
		return contextAnswer(event, context)
	}
	p.Install = installGemini
	return p
}

// withoutHooks starts a harness that has hooks, but none for this launch, and
// tells what lives on them.
func withoutHooks(argv []string, h Host, reason string, capabilities ...string) (Launch, error) {
	l, err := start(argv, h, nil)
	for _, c := range capabilities {
		l.Weak = append(l.Weak, Weakness{Capability: c, Reason: reason})
	}
	return l, err
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
