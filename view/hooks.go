package view

import "reflect"

// An L0Callback is a call of a callback of L0: the callback's name and the arguments,
// {"callback":"onStart","args":[1,false,false]} as JSON. L0 is the L0 Deterministic
// Lifecycle Specification (docs/contract/l0.md).
type L0Callback struct {
	Name string `json:"callback"`
	Args []any  `json:"args"`
}

// An L0Error says why an attempt failed; it is the first argument of onError. As JSON
// it is an object.
type L0Error struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"` // an L0 code; empty for most failures
}

func (e L0Error) Error() string { return e.Message }

// L0Callbacks returns the callbacks of an event, in the order in which they are
// called. As L0 says, "FALLBACK_START feeds onStart(1,false,true)"; onFallback
// follows, with an index that counts the fallbacks from 0. OnEvent, which is called
// for every event, is not among them.
func L0Callbacks(e L0Event) []L0Callback {
	call := func(name string, fields ...string) L0Callback {
		c := L0Callback{Name: name}
		for _, f := range fields {
			c.Args = append(c.Args, e.Field(f))
		}
		return c
	}
	switch e.Type {
	case "SESSION_START", "ATTEMPT_START":
		return []L0Callback{call("onStart", "attempt", "isRetry", "isFallback")}
	case "FALLBACK_START":
		to, _ := e.Field("toIndex").(int)
		return []L0Callback{{"onStart", []any{1, false, true}}, {"onFallback", []any{to - 1, e.Field("reason")}}}
	case "COMPLETE":
		return []L0Callback{call("onComplete", "state")}
	case "ERROR":
		words, _ := e.Field("error").(string)
		code, _ := e.Field("errorCode").(string)
		strategy := e.Field("recoveryStrategy")
		return []L0Callback{{"onError", []any{L0Error{words, code}, strategy == "retry", strategy == "fallback"}}}
	case "GUARDRAIL_RULE_RESULT":
		return []L0Callback{call("onViolation", "violation")}
	case "RETRY_ATTEMPT":
		return []L0Callback{call("onRetry", "attempt", "reason")}
	case "RESUME_START":
		return []L0Callback{call("onResume", "checkpoint", "tokenCount")}
	case "CHECKPOINT_SAVED":
		return []L0Callback{call("onCheckpoint", "checkpoint", "tokenCount")}
	case "TIMEOUT_TRIGGERED":
		return []L0Callback{call("onTimeout", "timeoutType", "elapsedMs")}
	case "ABORT_COMPLETED":
		return []L0Callback{call("onAbort", "tokenCount", "contentLength")}
	case "DRIFT_CHECK_RESULT":
		return []L0Callback{call("onDrift", "types", "confidence")}
	case "TOOL_REQUESTED":
		return []L0Callback{call("onToolCall", "toolName", "toolCallId", "arguments")}
	}
	return nil
}

// Hooks are the callbacks of L0 as Go functions. A nil hook is not called.
// Hooks run one after the other on the goroutine that calls Emit; a caller that
// must not wait calls Emit on another goroutine, as supervisor.Notifier does.
//
//	hooks := view.Hooks{OnRetry: func(attempt int, reason string) { … }}
//	for _, event := range l0.Apply(entry) {
//		hooks.Emit(event)
//	}
type Hooks struct {
	OnEvent func(L0Event)
	// OnStart is called when an attempt begins. attempt counts the attempts of one
	// profile (the primary or a fallback) from 1.
	OnStart    func(attempt int, isRetry, isFallback bool)
	OnComplete func(L0State)
	// OnError is called when an attempt failed; the error is an L0Error.
	OnError     func(err error, willRetry, willFallback bool)
	OnViolation func(L0Violation)
	OnRetry     func(attempt int, reason string) // attempt counts the profile's retries from 1
	OnFallback  func(index int, reason string)   // index counts the fallbacks from 0
	OnResume    func(checkpoint string, tokenCount int64)
	// OnCheckpoint receives the checkpoint's id, never a text.
	OnCheckpoint func(checkpoint string, tokenCount int64)
	OnTimeout    func(kind string, elapsedMs int64) // kind is initial, inter, tool, session or idle
	OnAbort      func(tokenCount, contentLength int64)
	OnDrift      func(types []string, confidence float64)
	OnToolCall   func(name, id string, args any)

	panics int
}

// Panics counts the calls that ended in a panic.
func (h *Hooks) Panics() int { return h.panics }

// Emit calls the hooks of an event: OnEvent first, then the others in the order
// of L0Callbacks. A panic in a hook affects neither the caller nor the other
// hooks (DECISIONS Z12).
func (h *Hooks) Emit(e L0Event) {
	if h.OnEvent != nil {
		h.guard(func() { h.OnEvent(e) })
	}
	for _, c := range L0Callbacks(e) {
		h.guard(func() { h.call(c) })
	}
}

func (h *Hooks) guard(call func()) {
	defer func() {
		if recover() != nil {
			h.panics++
		}
	}()
	call()
}

// call calls the hook of the same name as the callback, unless that hook is nil. The
// values in c.Args can be assigned to the parameters of the hook.
func (h *Hooks) call(c L0Callback) {
	hook := reflect.ValueOf(h).Elem().FieldByName("O" + c.Name[1:])
	if hook.IsNil() {
		return
	}
	args := make([]reflect.Value, len(c.Args))
	for i, a := range c.Args {
		args[i] = reflect.Zero(hook.Type().In(i))
		if a != nil {
			args[i] = reflect.ValueOf(a)
		}
	}
	hook.Call(args)
}
