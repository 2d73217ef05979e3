package codex

import (
	"cmp"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// exec decodes one line of `codex exec --json`. The lines have no time and name no
// turn; a process runs one turn.
//
// The usage of a turn is the sum over its thread so far, including earlier
// processes and the thread that it was forked from. The part of this process
// cannot be computed, so the whole usage of the thread is reported as one growing
// call.
type exec struct {
	telemetry.Tally
	telemetry.Digests
	session string
}

// Exec returns a decoder of `codex exec --json` lines.
func Exec() telemetry.Decoder { return new(exec) }

func (d *exec) Decode(record []byte) []telemetry.Signal {
	var kind, item, used []byte
	ok := scan.Object(record,
		scan.Raw("type", &kind), scan.Name("thread_id", &d.session), scan.Raw("item", &item), scan.Raw("usage", &used))
	if !ok || len(kind) == 0 {
		d.Miss(telemetry.Malformed)
		return nil
	}
	signal := func(k telemetry.Kind) telemetry.Signal {
		return telemetry.Signal{Kind: k, Source: "stream", Detail: scan.WordOf(kind), Session: d.session}
	}
	switch string(kind) {
	case `"thread.started"`: // the line does not show whether the thread is new or resumed
		s := signal(telemetry.SessionLive)
		s.Cause = "unknown"
		return []telemetry.Signal{s}
	case `"turn.started"`:
		return []telemetry.Signal{signal(telemetry.Prompt), signal(telemetry.Working)}
	case `"item.started"`, `"item.completed"`:
		return d.item(signal, item, string(kind) == `"item.started"`)
	case `"item.updated"`:
		return nil
	case `"error"`:
		// Only the text of the message would show why Codex retries, and text is not
		// read.
		s := signal(telemetry.Fault)
		s.Error = telemetry.ErrUnknown
		return []telemetry.Signal{s}
	case `"turn.completed"`:
		end := signal(telemetry.TurnEnd)
		end.Outcome = telemetry.Completed
		t := readTokens(used)
		if !t.call() {
			return []telemetry.Signal{end}
		}
		s := signal(telemetry.UsageSeen)
		s.Usage = t.usage()
		s.Usage.ID, s.Usage.Used = "thread", 0 // a sum does not show the size of the context
		return []telemetry.Signal{s, end}
	case `"turn.failed"`:
		s := signal(telemetry.TurnEnd)
		s.Outcome, s.Error = telemetry.Failed, telemetry.ErrUnknown
		return []telemetry.Signal{s}
	}
	d.Miss(scan.WordOf(kind))
	return nil
}

// item reads an item of the turn and reports tool calls.
func (d *exec) item(signal func(telemetry.Kind) telemetry.Signal, item []byte, started bool) []telemetry.Signal {
	call := readCall(item)
	switch string(call.kind) {
	case `"command_execution"`, `"mcp_tool_call"`, `"collab_tool_call"`, `"file_change"`, `"web_search"`:
		return []telemetry.Signal{call.report(signal, started, &d.Digests)}
	case `"agent_message"`, `"reasoning"`, `"todo_list"`, `"error"`:
	default:
		d.Miss("item/" + scan.WordOf(call.kind))
	}
	return nil
}

// call is an item that describes a tool call, in the streams of exec and of the
// app-server. It may have the arguments and the result.
type call struct {
	kind, tool, args, result, status []byte
	id                               string
}

func readCall(item []byte) call {
	var c call
	scan.Object(item,
		scan.Raw("type", &c.kind), scan.Name("id", &c.id), scan.Raw("tool", &c.tool), scan.Raw("arguments", &c.args),
		scan.Raw("command", &c.args), scan.Raw("changes", &c.args), scan.Raw("query", &c.args), scan.Raw("result", &c.result),
		scan.Raw("aggregated_output", &c.result), scan.Raw("aggregatedOutput", &c.result), scan.Raw("status", &c.status))
	return c
}

// report returns the start or the end of the call. A tool without a name is
// reported with the name of its kind.
func (c call) report(signal func(telemetry.Kind) telemetry.Signal, started bool, d *telemetry.Digests) telemetry.Signal {
	kind := telemetry.ToolEnd
	if started {
		kind = telemetry.ToolStart
	}
	s := signal(kind)
	s.Tool, s.ToolName = c.id, cmp.Or(scan.WordOf(c.tool), scan.WordOf(c.kind))
	if started {
		s.Args = d.Sized(c.args)
	} else {
		s.Result, s.ToolError = d.Sized(c.result), telemetry.ToolErrorOf(failed(c.status))
	}
	return s
}

// notify decodes the argument that Codex passes to the program in its setting
// `notify` when a turn has completed. A turn without messages (`/compact`) has no
// prompt.
type notify struct{ telemetry.Tally }

// Notify returns a decoder of arguments of the notify program.
func Notify() telemetry.Decoder { return new(notify) }

func (d *notify) Decode(record []byte) []telemetry.Signal {
	var kind, asked []byte
	s := telemetry.Signal{Source: "notify"}
	ok := scan.Object(record,
		scan.Raw("type", &kind), scan.Name("thread-id", &s.Session), scan.Name("turn-id", &s.Turn),
		scan.Raw("input-messages", &asked))
	switch {
	case !ok || len(kind) == 0:
		d.Miss(telemetry.Malformed)
		return nil
	case string(kind) != `"agent-turn-complete"`:
		d.Miss(scan.WordOf(kind))
		return nil
	}
	s.Detail = "agent-turn-complete"
	end := s
	end.Kind, end.Outcome = telemetry.TurnEnd, telemetry.Completed
	messages := 0
	scan.Elements(asked, func([]byte) bool { messages++; return false })
	if messages == 0 {
		return []telemetry.Signal{end}
	}
	s.Kind = telemetry.Prompt
	return []telemetry.Signal{s, end}
}

// history decodes one line of history.jsonl, where Codex's terminal interface
// stores the typed lines of all sessions. A line has no turn id, the file does not show
// when a turn ends, and its times are whole seconds.
type history struct{ telemetry.Tally }

// History returns a decoder of history.jsonl lines.
func History() telemetry.Decoder { return new(history) }

func (d *history) Decode(record []byte) []telemetry.Signal {
	s := telemetry.Signal{Kind: telemetry.Prompt, Source: "history", Detail: "history"}
	ok := scan.Object(record, scan.Name("session_id", &s.Session), scan.Seconds("ts", &s.At))
	if !ok || s.Session == "" || s.At.IsZero() {
		d.Miss(telemetry.Malformed)
		return nil
	}
	return []telemetry.Signal{s}
}
