package telemetry

import (
	"time"
)

// opencodeFailure is an error as OpenCode tells it.
type opencodeFailure struct {
	name   string
	status int64
}

// opencodeMessage is what is read of a message.
type opencodeMessage struct {
	id, role, parent, finish  string
	mode, agent               string
	model, provider           string
	summary                   bool
	created, completed        time.Time
	total, input, output      int64
	reasoning, cacheR, cacheW int64
	failure                   *opencodeFailure
	turn                      string // that it was written in
}

// read takes what is needed of a message.
func (m *opencodeMessage) read(info []byte) bool {
	ok := members(info, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			m.id = name(val)
		case "role":
			m.role = word(val)
		case "parentID":
			m.parent = name(val)
		case "mode":
			m.mode = name(val)
		case "agent":
			m.agent = name(val)
		case "modelID":
			m.model = name(val)
		case "providerID":
			m.provider = name(val)
		case "finish":
			m.finish = word(val)
		case "summary":
			m.summary = isTrue(val)
		case "time":
			members(val, func(key, val []byte) bool {
				switch string(key) {
				case "created":
					m.created = stampMilli(val)
				case "completed":
					m.completed = stampMilli(val)
				}
				return true
			})
		case "tokens":
			m.readTokens(val)
		case "error":
			if !isNull(val) {
				f := readOpencodeFailure(val)
				m.failure = &f
			}
		}
		return true
	})
	return ok && m.id != ""
}

// readTokens reads the tokens of one call, or their sum of a session. What was
// cached is not in input, and what was thought not in output.
func (m *opencodeMessage) readTokens(tokens []byte) {
	members(tokens, func(key, val []byte) bool {
		switch string(key) {
		case "total":
			m.total = count(val)
		case "input":
			m.input = count(val)
		case "output":
			m.output = count(val)
		case "reasoning":
			m.reasoning = count(val)
		case "cache":
			members(val, func(key, val []byte) bool {
				switch string(key) {
				case "read":
					m.cacheR = count(val)
				case "write":
					m.cacheW = count(val)
				}
				return true
			})
		}
		return true
	})
}

func (m *opencodeMessage) sum() int64 {
	return m.input + m.output + m.reasoning + m.cacheR + m.cacheW
}

// opencodeCall is the state of a tool's call.
type opencodeCall struct{ status, input, output []byte }

func readOpencodeCall(state []byte) opencodeCall {
	var c opencodeCall
	members(state, func(key, val []byte) bool {
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
func (c opencodeCall) begun(s Signal, d *digesting) Signal {
	s.Kind, s.Args = ToolStart, d.sized(c.input)
	return s
}

// over makes s the end of the call.
func (c opencodeCall) over(s Signal, d *digesting) Signal {
	s.Kind, s.Result, s.ToolError = ToolEnd, d.sized(c.output), toolError(string(c.status) == `"error"`)
	return s
}

func readOpencodeFailure(failure []byte) opencodeFailure {
	var f opencodeFailure
	members(failure, func(key, val []byte) bool {
		switch string(key) {
		case "name":
			f.name = word(val)
		case "data":
			members(val, func(key, val []byte) bool {
				if string(key) == "statusCode" {
					f.status = count(val)
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
func (f opencodeFailure) kind() ErrorKind {
	switch f.name {
	case "APIError":
		return httpError(f.status)
	case "ContextOverflowError":
		return ErrContextFull
	}
	return opencodeError(f.name)
}
