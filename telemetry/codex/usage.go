package codex

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// This file holds what the formats of Codex have in common: tokens, causes of a
// failure and rate limits. The rollout writes names with underscores, the
// app-server writes them in camel case.

// tokens is one count of tokens as Codex writes it: cached tokens and tokens
// written to a cache are part of the input, reasoning is part of the output,
// and total is input and output together.
type tokens struct{ input, cached, written, output, reasoning, total int64 }

func readTokens(val []byte) tokens {
	var t tokens
	// Rollouts have several counts per call, and this switch is faster than a list of
	// fields for scan.Object.
	scan.Members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input_tokens", "inputTokens":
			t.input = scan.CountOf(val)
		case "cached_input_tokens", "cachedInputTokens":
			t.cached = scan.CountOf(val)
		case "cache_write_input_tokens", "cacheWriteInputTokens":
			t.written = scan.CountOf(val)
		case "output_tokens", "outputTokens":
			t.output = scan.CountOf(val)
		case "reasoning_output_tokens", "reasoningOutputTokens":
			t.reasoning = scan.CountOf(val)
		case "total_tokens", "totalTokens":
			t.total = scan.CountOf(val)
		}
		return true
	})
	return t
}

// call reports whether these are the tokens of a call. A count with only a total
// describes the size of the context: an estimate after a compaction, or a full
// context window when the model refused a request.
func (t tokens) call() bool { return t.input > 0 || t.output > 0 }

// usage converts the counts to parts that do not overlap.
func (t tokens) usage() *telemetry.Usage {
	return &telemetry.Usage{
		Used:       cmp.Or(t.total, t.input+t.output),
		Input:      max(t.input-t.cached-t.written, 0),
		CacheRead:  min(t.cached, t.input),
		CacheWrite: min(t.written, max(t.input-t.cached, 0)),
		Output:     t.output,
		Reasoning:  min(t.reasoning, t.output),
	}
}

func (t tokens) minus(o tokens) tokens {
	return tokens{t.input - o.input, t.cached - o.cached, t.written - o.written, t.output - o.output, t.reasoning - o.reasoning, t.total - o.total}
}

// runningTotal computes model calls from a total that Codex counts for a thread
// and repeats in each record. Each increase is one call.
type runningTotal struct {
	known  bool
	newest tokens
}

// step returns the tokens added since the previous record; last is the newest
// call as Codex reports it. The first total may include work of other threads
// (after a resume or a fork, or in a file that is read from its middle). It
// counts only if the thread began in this file and last equals the total. If the
// total becomes smaller, a new count has begun.
func (t *runningTotal) step(total, last tokens, ours bool) tokens {
	before, first := t.newest, !t.known
	t.known, t.newest = true, total
	switch fell := total.input < before.input || total.output < before.output; {
	case !first && !fell:
		d := total.minus(before)
		d.cached, d.written, d.reasoning = max(d.cached, 0), max(d.written, 0), max(d.reasoning, 0)
		return d
	case total == last && (fell || ours):
		return total
	}
	return tokens{}
}

// key identifies a call without an id by the total number of tokens after it.
func (t tokens) key() string { return "total " + strconv.FormatInt(t.input+t.output, 10) }

// errorKind reads the structured cause of a failed turn: a word, or a word with
// the HTTP status of the last attempt. The message beside it is never read.
func errorKind(failure []byte) telemetry.ErrorKind {
	var info []byte
	scan.Object(failure, scan.Raw("codex_error_info", &info), scan.Raw("codexErrorInfo", &info))
	cause, status := scan.WordOf(info), int64(0)
	scan.Members(info, func(key, val []byte) bool {
		cause = string(key)
		scan.Object(val, scan.Count("http_status_code", &status), scan.Count("httpStatusCode", &status))
		return false
	})
	switch underscored(cause) {
	case "context_window_exceeded":
		return telemetry.ErrContextFull
	case "usage_limit_exceeded":
		return telemetry.ErrQuota
	case "session_budget_exceeded":
		return telemetry.ErrBilling
	case "rate_limit_exceeded":
		return telemetry.ErrRateLimit
	case "internal_server_error", "server_overloaded", "flex_unavailable", "policy_capacity_unavailable":
		return telemetry.ErrServer
	case "unauthorized":
		return telemetry.ErrAuth
	case "bad_request", "model_not_found":
		return telemetry.ErrInvalidRequest
	case "http_connection_failed", "response_stream_connection_failed",
		"response_stream_disconnected", "response_too_many_failed_attempts":
		return telemetry.HTTPError(status)
	}
	return telemetry.ErrUnknown
}

// underscored converts a name from camel case to underscores.
func underscored(name string) string {
	if strings.ToLower(name) == name {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// limitState is the newest state of the rate limits: whether one of them is
// reached, and when all reached ones will be lifted.
type limitState struct {
	reached bool
	until   time.Time
}

// see reads the state of the rate limits. It returns true if a limit is reached
// and the state differs from the previous one. Codex does not wait until a limit
// is lifted: the turn fails.
func (l *limitState) see(limits []byte, at time.Time) bool {
	if len(limits) == 0 || scan.IsNull(limits) {
		return false
	}
	was := *l
	*l = limitState{}
	window := func(val []byte) {
		if full, until := readWindow(val, at); full {
			l.reached = true
			if until.After(l.until) {
				l.until = until
			}
		}
	}
	scan.Object(limits, scan.Func("primary", window), scan.Func("secondary", window),
		scan.Func("rate_limit_reached_type", func(val []byte) { l.reached = l.reached || scan.WordOf(val) != "" }),
		scan.Func("rateLimitReachedType", func(val []byte) { l.reached = l.reached || scan.WordOf(val) != "" }),
		scan.Func("spend_control_reached", func(val []byte) { l.reached = l.reached || scan.IsTrue(val) }),
		scan.Func("spendControlReached", func(val []byte) { l.reached = l.reached || scan.IsTrue(val) }))
	return l.reached && *l != was
}

// readWindow reads one window of a rate limit. Older versions write the number
// of seconds until the window's end, counted from the time of the record.
func readWindow(val []byte, at time.Time) (full bool, until time.Time) {
	percent := func(val []byte) {
		n, err := strconv.ParseFloat(string(val), 64)
		full = err == nil && n >= 100
	}
	scan.Object(val, scan.Func("used_percent", percent), scan.Func("usedPercent", percent),
		scan.Seconds("resets_at", &until), scan.Seconds("resetsAt", &until),
		scan.Func("resets_in_seconds", func(val []byte) {
			if n := scan.CountOf(val); n > 0 && n < 1<<32 && !at.IsZero() && until.IsZero() {
				until = scan.InRange(at.Add(time.Duration(n) * time.Second))
			}
		}))
	return full, until
}
