package opencode

import (
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// opencodeFailure is an error as OpenCode tells it.
type failureInfo struct {
	name   string
	status int64
}

// opencodeMessage is what is read of a message.
type messageInfo struct {
	id, role, parent, finish  string
	mode, agent               string
	model, provider           string
	summary                   bool
	created, completed        time.Time
	total, input, output      int64
	reasoning, cacheR, cacheW int64
	failure                   *failureInfo
	turn                      string // that it was written in
}

// read takes what is needed of a message.
func (m *messageInfo) read(info []byte) bool {
	ok := scan.Members(info, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			m.id = scan.NameOf(val)
		case "role":
			m.role = scan.WordOf(val)
		case "parentID":
			m.parent = scan.NameOf(val)
		case "mode":
			m.mode = scan.NameOf(val)
		case "agent":
			m.agent = scan.NameOf(val)
		case "modelID":
			m.model = scan.NameOf(val)
		case "providerID":
			m.provider = scan.NameOf(val)
		case "finish":
			m.finish = scan.WordOf(val)
		case "summary":
			m.summary = scan.IsTrue(val)
		case "time":
			scan.Members(val, func(key, val []byte) bool {
				switch string(key) {
				case "created":
					m.created = scan.MilliOf(val)
				case "completed":
					m.completed = scan.MilliOf(val)
				}
				return true
			})
		case "tokens":
			m.readTokens(val)
		case "error":
			if !scan.IsNull(val) {
				f := readFailure(val)
				m.failure = &f
			}
		}
		return true
	})
	return ok && m.id != ""
}

// readTokens reads the tokens of one call, or their sum of a session. What was
// cached is not in input, and what was thought not in output.
func (m *messageInfo) readTokens(tokens []byte) {
	scan.Members(tokens, func(key, val []byte) bool {
		switch string(key) {
		case "total":
			m.total = scan.CountOf(val)
		case "input":
			m.input = scan.CountOf(val)
		case "output":
			m.output = scan.CountOf(val)
		case "reasoning":
			m.reasoning = scan.CountOf(val)
		case "cache":
			scan.Members(val, func(key, val []byte) bool {
				switch string(key) {
				case "read":
					m.cacheR = scan.CountOf(val)
				case "write":
					m.cacheW = scan.CountOf(val)
				}
				return true
			})
		}
		return true
	})
}

func (m *messageInfo) sum() int64 {
	return m.input + m.output + m.reasoning + m.cacheR + m.cacheW
}

// opencodeCall is the state of a tool's call.
type toolCall struct{ status, input, output []byte }

func readCall(state []byte) toolCall {
	var c toolCall
	scan.Members(state, func(key, val []byte) bool {
		switch string(key) {
		case "status":
			c.status = val
		case "input":
			c.input = val
		case "output", "error":
			c.output = val
		}
		return true
	})
	return c
}

// begun makes s the beginning of the call.
func (c toolCall) begun(s telemetry.Signal, d *telemetry.Digests) telemetry.Signal {
	s.Kind, s.Args = telemetry.ToolStart, d.Sized(c.input)
	return s
}

// over makes s the end of the call.
func (c toolCall) over(s telemetry.Signal, d *telemetry.Digests) telemetry.Signal {
	s.Kind, s.Result, s.ToolError = telemetry.ToolEnd, d.Sized(c.output), telemetry.ToolErrorOf(string(c.status) == `"error"`)
	return s
}

func readFailure(failure []byte) failureInfo {
	var f failureInfo
	scan.Members(failure, func(key, val []byte) bool {
		switch string(key) {
		case "name":
			f.name = scan.WordOf(val)
		case "data":
			scan.Members(val, func(key, val []byte) bool {
				if string(key) == "statusCode" {
					f.status = scan.CountOf(val)
				}
				return true
			})
		}
		return true
	})
	return f
}

// kind is the cause that an error's name and status tell. An APIError without
// a status got no answer.
func (f failureInfo) kind() telemetry.ErrorKind {
	switch f.name {
	case "APIError":
		return telemetry.HTTPError(f.status)
	case "ContextOverflowError":
		return telemetry.ErrContextFull
	}
	return errorKind(f.name)
}
