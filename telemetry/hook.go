package telemetry

import "fmt"

// hookInput is what the hooks of the harnesses have in common. They speak
// nearly the same words; where they differ, the member is simply absent.
type hookInput struct {
	event, session, path, cause, model string
	prompt, turn                       string // Claude Code's prompt_id, Codex's turn_id
	agent, agentType                   string
	trigger, reason, failure, notice   string
	tool, toolName                     string
	toolInput, toolResponse            []byte
}

func readHook(event string, stdin []byte) (hookInput, error) {
	var in hookInput
	ok := members(stdin, func(key, val []byte) bool {
		switch string(key) {
		case "hook_event_name":
			in.event = word(val)
		case "session_id":
			in.session = name(val)
		case "transcript_path":
			in.path = path(val)
		case "source":
			in.cause = word(val)
		case "model":
			in.model = name(val)
		case "prompt_id":
			in.prompt = name(val)
		case "turn_id":
			in.turn = name(val)
		case "agent_id":
			in.agent = name(val)
		case "agent_type":
			in.agentType = word(val)
		case "trigger":
			in.trigger = word(val)
		case "reason":
			in.reason = word(val)
		case "error":
			in.failure = word(val)
		case "notification_type":
			in.notice = word(val)
		case "tool_use_id":
			in.tool = name(val)
		case "tool_name":
			in.toolName = word(val)
		case "tool_input":
			in.toolInput = val
		case "tool_response":
			in.toolResponse = val
		}
		return true
	})
	if !ok {
		return in, fmt.Errorf("read input of hook %s: it is not a JSON object", event)
	}
	if in.session == "" {
		return in, fmt.Errorf("read input of hook %s: it names no session", event)
	}
	if in.event != "" && in.event != event {
		return in, fmt.Errorf("read input of hook %s: it says that it is of hook %s", event, in.event)
	}
	return in, nil
}

// begun and over complete a signal about the tool that the hook is of. A hook's
// input is small beside what it costs to run one.
func (in hookInput) begun(s Signal) Signal {
	s.Tool, s.ToolName, s.Args = in.tool, in.toolName, sized(in.toolInput)
	return s
}

func (in hookInput) over(s Signal) Signal {
	s.Tool, s.ToolName, s.Result = in.tool, in.toolName, sized(in.toolResponse)
	return s
}

// hookCapacity keeps below the 10,000 characters above which Claude Code and
// Codex cut a hook's context or replace it by a reference to a file, with room
// for the text that they put around it. Of the others no limit is known.
const hookCapacity = 9500

// fill says which slot an answer to this hook fills.
func (c *HookCall) fill(slot string) { c.Slot, c.Capacity = slot, hookCapacity }

// tell adds a signal.
func (c *HookCall) tell(s Signal) { c.Signals = append(c.Signals, s) }

// The placement classes that a hook's answer can fill, as manifests name them.
const (
	slotSession = "pre_session"
	slotFrame   = "pre_frame_trailing"
	slotTool    = "tool_result"
)

// cause narrows a harness's word to the closed set of causes.
func cause(word string) string {
	switch word {
	case "startup", "resume", "clear", "compact", "fork":
		return word
	}
	return "unknown"
}

// trigger narrows a harness's word to the closed set of triggers.
func trigger(word string) string {
	switch word {
	case "auto", "manual", "reactive":
		return word
	}
	return "unknown"
}

// detail joins a hook's name and its variant as the harnesses do themselves.
func detail(event, variant string) string {
	if variant == "" {
		return event
	}
	return event + ":" + variant
}
