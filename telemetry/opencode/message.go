package opencode

import (
	"cmp"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// failureInfo is an error as OpenCode reports it.
type failureInfo struct {
	name   string
	status int64
}

// messageInfo holds the members that are read from a message.
type messageInfo struct {
	id, role, parent, finish  string
	mode, agent               string
	model, provider           string
	summary                   bool
	created, completed        time.Time
	total, input, output      int64
	reasoning, cacheR, cacheW int64
	failure                   *failureInfo
	turn                      string // the turn in which the message was written
}

// read reads a message. It reports whether info is a message with an id.
func (m *messageInfo) read(info []byte) bool {
	ok := scan.Object(info,
		scan.Name("id", &m.id), scan.Word("role", &m.role), scan.Name("parentID", &m.parent), scan.Name("mode", &m.mode),
		scan.Name("agent", &m.agent), scan.Name("modelID", &m.model), scan.Name("providerID", &m.provider),
		scan.Word("finish", &m.finish), scan.True("summary", &m.summary),
		scan.In("time", scan.Milli("created", &m.created), scan.Milli("completed", &m.completed)),
		scan.Func("tokens", func(val []byte) { m.readTokens(val) }),
		scan.Func("error", func(val []byte) {
			if !scan.IsNull(val) {
				f := readFailure(val)
				m.failure = &f
			}
		}))
	return ok && m.id != ""
}

// readTokens reads the tokens of one call, or the sum of a session. Input
// excludes cached tokens, and output excludes reasoning.
func (m *messageInfo) readTokens(tokens []byte) {
	scan.Object(tokens,
		scan.Count("total", &m.total), scan.Count("input", &m.input), scan.Count("output", &m.output),
		scan.Count("reasoning", &m.reasoning), scan.In("cache", scan.Count("read", &m.cacheR), scan.Count("write", &m.cacheW)))
}

func (m *messageInfo) sum() int64 {
	return m.input + m.output + m.reasoning + m.cacheR + m.cacheW
}

// usage returns the tokens as the usage of one call.
func (m *messageInfo) usage(id string) *telemetry.Usage {
	return &telemetry.Usage{ID: id, Used: cmp.Or(m.total, m.sum()), Input: m.input, CacheRead: m.cacheR, CacheWrite: m.cacheW,
		Output: m.output + m.reasoning, Reasoning: m.reasoning}
}

// toolCall is the state of a tool call.
type toolCall struct{ status, input, output []byte }

func readCall(state []byte) toolCall {
	var c toolCall
	scan.Object(state,
		scan.Raw("status", &c.status), scan.Raw("input", &c.input), scan.Raw("output", &c.output), scan.Raw("error", &c.output))
	return c
}

// begun returns s with the fields that report the start of the call.
func (c toolCall) begun(s telemetry.Signal, d *telemetry.Digests) telemetry.Signal {
	s.Kind, s.Args = telemetry.ToolStart, d.Sized(c.input)
	return s
}

// over returns s with the fields that report the end of the call.
func (c toolCall) over(s telemetry.Signal, d *telemetry.Digests) telemetry.Signal {
	s.Kind, s.Result, s.ToolError = telemetry.ToolEnd, d.Sized(c.output), telemetry.ToolErrorOf(string(c.status) == `"error"`)
	return s
}

func readFailure(failure []byte) failureInfo {
	var f failureInfo
	scan.Object(failure, scan.Word("name", &f.name), scan.In("data", scan.Count("statusCode", &f.status)))
	return f
}

// kind returns the cause that an error's name and HTTP status indicate. An
// APIError without a status means that there was no answer.
func (f failureInfo) kind() telemetry.ErrorKind {
	switch f.name {
	case "APIError":
		return telemetry.HTTPError(f.status)
	case "ContextOverflowError":
		return telemetry.ErrContextFull
	}
	return errorKind(f.name)
}
