// Package hermes decodes the rows of Hermes's store and the input of its hooks,
// and writes the answers to them. It is based on Hermes's source only: it was
// never tested with the program.
//
//	d := hermes.Store()
//	signals := d.Decode(row)
package hermes

import (
	"cmp"
	"fmt"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// Hooks is the dialect of Hermes's shell hooks. A hook's input has a few members that
// all hooks share; the members for its event are in the object extra. Some names of
// events are misleading: on_session_start is called at the first turn and
// on_session_end after every turn. The end of the session is on_session_finalize.
type Hooks struct{ telemetry.Waits }

// Decode implements telemetry.Dialect.
func (Hooks) Decode(event string, stdin []byte) (telemetry.HookCall, error) {
	in, err := read(event, stdin)
	if err != nil {
		return telemetry.HookCall{}, err
	}
	call := telemetry.HookCall{Event: event, Session: in.session, Turn: in.turn}
	sign := func(kind telemetry.Kind) telemetry.Signal {
		s := telemetry.Signal{Kind: kind, Source: "hook", Detail: event, Session: in.session, Turn: in.turn, Agent: in.agent}
		if in.agent != "" {
			s.Session = "" // the input does not have the session that the sub-agent works for
		}
		return s
	}
	switch event {
	case "on_session_start", "on_session_reset":
		s := sign(telemetry.SessionLive)
		s.Turn, s.Cause, s.Dir, s.Model = "", "startup", in.dir, in.model
		if event == "on_session_reset" {
			s.Cause = "clear"
		}
		call.Add(s)
	case "on_session_finalize":
		s := sign(telemetry.SessionGone)
		s.Turn, s.Reason = "", in.reason
		call.Add(s)
	case "pre_llm_call":
		// pre_llm_call runs once a turn, after any compaction. Its answer is added
		// after the prompt.
		if in.agent != "" {
			call.Add(sign(telemetry.Working)) // Hermes itself started this turn, not the user
			break
		}
		call.Fill(telemetry.SlotFrame)
		call.Add(sign(telemetry.Prompt))
	case "pre_api_request":
		call.Add(sign(telemetry.Working))
	case "post_api_request":
		in.usage.ID = in.request
		call.Add(in.used(sign(telemetry.UsageSeen)))
	case "api_request_error":
		call.Add(in.refused(sign(telemetry.Fault)))
	case "post_llm_call":
		s := sign(telemetry.TurnStop)
		s.Outcome = telemetry.Completed // this hook runs only after a completed answer
		call.Add(s)
	case "on_session_end":
		call.Add(in.ended(sign(telemetry.TurnEnd)))
	case "pre_tool_call", "post_tool_call":
		call.Add(in.toolCall(sign(telemetry.ToolStart), event == "post_tool_call"))
	case "pre_approval_request":
		if in.surface == "smart" {
			call.Add(sign(telemetry.Alive)) // here a model decides about the approval, not the user
			break
		}
		call.Add(sign(telemetry.NeedsInput))
	case "post_approval_response":
		call.Add(sign(telemetry.Working))
	case "post_auxiliary_call":
		// If this call asked for the summary of a compaction, Hermes may still discard
		// the summary. The call is therefore reported as usage only. Compactions are
		// reported from the store (store.go).
		in.usage.ID = in.request
		s := sign(telemetry.UsageSeen)
		s.Side = cmp.Or(in.task, "auxiliary")
		call.Add(in.used(s))
	default:
		call.Add(sign(telemetry.Alive))
	}
	return call, nil
}

// Answer implements telemetry.Dialect.
func (Hooks) Answer(event, context string) []byte {
	if event != "pre_llm_call" {
		return nil
	}
	return telemetry.PlainOutput(context)
}

// input holds the members that are read from a hook's input.
type input struct {
	event, session, agent, dir            string
	turn, request, tool, toolName, model  string
	toolInput                             []byte
	reason, task, surface, platform       string
	usage                                 telemetry.Usage
	window, status                        int64
	completed, failed, interrupted, retry bool
	hasOutcome                            bool // the event has the outcome of the turn
}

func read(event string, stdin []byte) (input, error) {
	var in input
	ok := scan.Object(stdin,
		scan.Word("hook_event_name", &in.event), scan.Name("session_id", &in.session), scan.Path("cwd", &in.dir),
		scan.Word("tool_name", &in.toolName), scan.Raw("tool_input", &in.toolInput),
		scan.Func("extra", func(val []byte) { in.readExtra(val) }))
	if !ok {
		return in, fmt.Errorf("read input of hook %s: it is not a JSON object", event)
	}
	if in.event != "" && in.event != event {
		return in, fmt.Errorf("read input of hook %s: it belongs to hook %s", event, in.event)
	}
	// An approval or an auxiliary model call need not belong to a session.
	switch event {
	case "pre_approval_request", "post_approval_response", "pre_auxiliary_call", "post_auxiliary_call":
	default:
		if in.session == "" {
			return in, fmt.Errorf("read input of hook %s: it names no session", event)
		}
	}
	if in.platform == "subagent" {
		in.agent = in.session
	}
	return in, nil
}

func (in *input) readExtra(extra []byte) {
	scan.Object(extra,
		scan.Name("turn_id", &in.turn), scan.Name("api_request_id", &in.request), scan.Name("tool_call_id", &in.tool),
		scan.Name("model", &in.model), scan.Word("reason", &in.reason), scan.Word("aux_task", &in.task),
		scan.Word("surface", &in.surface), scan.Word("platform", &in.platform), scan.Count("context_length", &in.window),
		scan.Count("status_code", &in.status), scan.True("retryable", &in.retry),
		scan.Func("completed", func(val []byte) { in.completed, in.hasOutcome = scan.IsTrue(val), true }),
		scan.Func("failed", func(val []byte) { in.failed, in.hasOutcome = scan.IsTrue(val), true }),
		scan.Func("interrupted", func(val []byte) { in.interrupted, in.hasOutcome = scan.IsTrue(val), true }),
		scan.Func("usage", func(val []byte) { in.usage = readUsage(val) }))
}

// readUsage reads the tokens of one call. Hermes counts cached tokens
// separately from the input; prompt_tokens is the whole input of the model.
func readUsage(val []byte) telemetry.Usage {
	var u telemetry.Usage
	var prompt int64
	scan.Object(val,
		scan.Count("input_tokens", &u.Input), scan.Count("output_tokens", &u.Output), scan.Count("cache_read_tokens", &u.CacheRead),
		scan.Count("cache_write_tokens", &u.CacheWrite), scan.Count("reasoning_tokens", &u.Reasoning),
		scan.Count("prompt_tokens", &prompt))
	u.Used = cmp.Or(u.Input+u.CacheRead+u.CacheWrite, prompt)
	return u
}

// used returns s with the call's usage. If there is none, s becomes a sign of
// life.
func (in *input) used(s telemetry.Signal) telemetry.Signal {
	if in.usage.Used == 0 {
		s.Kind, s.Side = telemetry.Alive, ""
		return s
	}
	s.Model, s.Usage = in.model, &in.usage
	if s.Side == "" {
		s.ReportWindow(in.window)
	}
	return s
}

// refused reads a failed request. Hermes waits and retries if it marks the
// failure as retryable.
func (in *input) refused(s telemetry.Signal) telemetry.Signal {
	s.Error = telemetry.HTTPError(in.status)
	if in.retry && (s.Error == telemetry.ErrRateLimit || s.Error == telemetry.ErrServer) {
		s.Kind = telemetry.LimitWait
	}
	return s
}

func (in *input) ended(s telemetry.Signal) telemetry.Signal {
	switch {
	case in.interrupted:
		s.Outcome = telemetry.Interrupted
	case in.completed && !in.failed:
		s.Outcome = telemetry.Completed
	case in.hasOutcome:
		s.Outcome, s.Error = telemetry.Failed, telemetry.ErrUnknown
	}
	return s
}

// toolCall reports a tool's start or end. The signal has no session, because the
// hook's session may be a sub-agent's, and the hook does not show whether it is. A
// sub-agent's tool call shows that the parent works too, because the sub-agent works
// within a tool call of its parent.
func (in *input) toolCall(s telemetry.Signal, over bool) telemetry.Signal {
	s.Session, s.Turn, s.Tool = "", "", in.tool
	switch {
	case in.tool == "":
		s.Kind = telemetry.Alive
		return s
	case over:
		s.Kind = telemetry.ToolEnd
	default:
		s.Args = telemetry.SizedOf(in.toolInput)
	}
	s.ToolName = in.toolName
	return s
}
