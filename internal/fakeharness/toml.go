//go:build unix

package fakeharness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// codexHooks reads the -c overrides: hooks.EVENT=[{hooks=[{…}]}] and
// hooks.state={"…"={trusted_hash="…"}}. A later override of a key replaces an
// earlier one. As in the real program, a hook whose digest is not recorded as
// trusted does not run.
func codexHooks(configs []string, trustAll bool) (hooks, error) {
	out := hooks{on: map[string][]hookCommand{}}
	events := map[string]string{}
	trusted := map[string]string{}
	for _, c := range configs {
		key, value, ok := strings.Cut(c, "=")
		key = strings.TrimSpace(key)
		event, isHook := strings.CutPrefix(key, "hooks.")
		switch {
		case !ok:
			return hooks{}, fmt.Errorf("-c %s: expected key=value", c)
		case key == "hooks.state":
			var entries map[string]struct {
				Hash string `json:"trusted_hash"`
			}
			if err := decodeTOML(value, &entries); err != nil {
				return hooks{}, fmt.Errorf("-c %s: %w", key, err)
			}
			clear(trusted)
			for place, e := range entries {
				trusted[place] = e.Hash
			}
		case isHook:
			events[event] = value
		}
	}
	for event, value := range events {
		var groups []group
		if err := decodeTOML(value, &groups); err != nil {
			return hooks{}, fmt.Errorf("-c hooks.%s: %w", event, err)
		}
		for i := range groups {
			trustedHooks := groups[i].Hooks[:0]
			for j, c := range groups[i].Hooks {
				place := fmt.Sprintf("/<session-flags>/config.toml:%s:%d:%d", snake(event), i, j)
				hash := trustHash(snake(event), groups[i].Matcher, c.Command, c.Timeout)
				if !trustAll && trusted[place] != hash {
					out.warning = "Hooks need review"
					continue
				}
				trustedHooks = append(trustedHooks, c)
			}
			groups[i].Hooks = trustedHooks
		}
		out.add(event, groups)
	}
	return out, nil
}

// trustHash returns the digest by which a hook is trusted. It is computed from
// the hook's definition as canonical JSON, with the effective time-out.
func trustHash(event, matcher, command string, timeout int) string {
	brief := event == "session_end" || event == "interrupt"
	switch {
	case timeout == 0 && brief:
		timeout = 1
	case timeout == 0:
		timeout = 600
	case brief:
		timeout = min(timeout, 3)
	}
	def := fmt.Sprintf(`{"event_name":%s,"hooks":[{"async":false,"command":%s,"timeout":%d,"type":"command"}]`, text(event), text(command), timeout)
	if matcher != "" {
		def += `,"matcher":` + text(matcher)
	}
	sum := sha256.Sum256([]byte(def + "}"))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// text returns s as a JSON string in which the characters <, > and & are not escaped.
func text(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string into a strings.Builder cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// snake returns an event's name in the form of the trust records: session_end for
// SessionEnd.
func snake(event string) string {
	var b strings.Builder
	for i, r := range event {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// decodeTOML decodes one TOML value of the kinds that overrides use: arrays,
// inline tables, strings, whole numbers and booleans. It rewrites the value as
// JSON, token by token. Decoding that JSON finds most mistakes.
func decodeTOML(value string, to any) error {
	tokens := regexp.MustCompile(`^("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_+-]+|[\]\[{}=,])\s*`)
	var out []string
	for rest := strings.TrimSpace(value); rest != ""; {
		match := tokens.FindStringSubmatch(rest)
		if match == nil {
			return fmt.Errorf("not a value: %q", rest)
		}
		token, n := match[1], len(out)
		rest = rest[len(match[0]):]
		switch {
		case token[0] == '\'':
			token = text(token[1 : len(token)-1])
		case token[0] == '"':
			s, err := strconv.Unquote(token)
			if err != nil {
				return fmt.Errorf("invalid string %s", token)
			}
			token = text(s)
		case token == "=":
			token = ":"
		case token == "]" && n > 1 && out[n-1] == "," && out[n-2] != "[":
			out = out[:n-1] // drop a trailing comma, which only TOML allows
		case strings.Contains("[]{},", token) || token == "true" || token == "false":
		case strings.HasPrefix(rest, "="):
			token = text(token)
		default:
			number, err := strconv.ParseInt(strings.ReplaceAll(token, "_", ""), 10, 64)
			if err != nil {
				return fmt.Errorf("not a value: %q", token)
			}
			token = strconv.FormatInt(number, 10)
		}
		out = append(out, token)
	}
	return json.Unmarshal([]byte(strings.Join(out, " ")), to)
}
