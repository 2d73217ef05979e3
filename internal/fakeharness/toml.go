//go:build unix

package fakeharness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// codexHooks reads the -c overrides: hooks.EVENT=[{hooks=[{…}]}] and
// hooks.state={"…"={trusted_hash="…"}}. A later override of a key replaces an
// earlier one. As in the real program, a hook runs only if its digest is recorded
// as trusted.
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
			state, err := parseTOML(value)
			if err != nil {
				return hooks{}, fmt.Errorf("-c %s: %w", key, err)
			}
			var entries map[string]struct {
				Hash string `json:"trusted_hash"`
			}
			if err := convert(state, &entries); err != nil {
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
		parsed, err := parseTOML(value)
		if err != nil {
			return hooks{}, fmt.Errorf("-c hooks.%s: %w", event, err)
		}
		var groups []group
		if err := convert(parsed, &groups); err != nil {
			return hooks{}, fmt.Errorf("-c hooks.%s: %w", event, err)
		}
		for i := range groups {
			kept := groups[i].Hooks[:0]
			for j, c := range groups[i].Hooks {
				place := fmt.Sprintf("/<session-flags>/config.toml:%s:%d:%d", snake(event), i, j)
				hash := trustHash(snake(event), groups[i].Matcher, c.Command, c.Timeout)
				if !trustAll && trusted[place] != hash {
					out.warning = "Hooks need review"
					continue
				}
				kept = append(kept, c)
			}
			groups[i].Hooks = kept
		}
		out.add(event, groups)
	}
	return out, nil
}

// trustHash is the digest of a trusted hook: of its definition in canonical JSON,
// with its effective time-out.
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

// text is s in JSON, with as few escapes as possible.
func text(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string and a strings.Builder do not fail
	return strings.TrimSuffix(b.String(), "\n")
}

// snake is an event's name in the spelling of the trust records.
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

func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// parseTOML reads one TOML value of an override: an array, inline table, string,
// integer or boolean.
func parseTOML(text string) (any, error) {
	p := &toml{rest: strings.TrimSpace(text)}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("unexpected %q", p.rest)
	}
	return v, nil
}

type toml struct{ rest string }

func (p *toml) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take removes word from the front, after spaces.
func (p *toml) take(word string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, word)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *toml) value(depth int) (any, error) {
	p.space()
	switch {
	case depth > 20:
		return nil, errors.New("nested too deep")
	case p.take("["):
		list := []any{}
		for !p.take("]") {
			if len(list) > 0 && !p.take(",") {
				return nil, fmt.Errorf("expected , or ] before %q", p.rest)
			}
			if p.take("]") {
				break
			}
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case p.take("{"):
		table := map[string]any{}
		for first := true; !p.take("}"); first = false {
			if !first && !p.take(",") {
				return nil, fmt.Errorf("expected , or } before %q", p.rest)
			}
			key, err := p.key()
			if err != nil {
				return nil, err
			}
			if !p.take("=") {
				return nil, fmt.Errorf("expected = before %q", p.rest)
			}
			if table[key], err = p.value(depth + 1); err != nil {
				return nil, err
			}
		}
		return table, nil
	case strings.HasPrefix(p.rest, `"`), strings.HasPrefix(p.rest, "'"):
		return p.str()
	case p.take("true"):
		return true, nil
	case p.take("false"):
		return false, nil
	}
	n := len(p.rest) - len(strings.TrimLeft(p.rest, "+-0123456789_"))
	i, err := strconv.ParseInt(strings.ReplaceAll(p.rest[:n], "_", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("no value: %q", p.rest)
	}
	p.rest = p.rest[n:]
	return i, nil
}

func (p *toml) key() (string, error) {
	p.space()
	if strings.HasPrefix(p.rest, `"`) || strings.HasPrefix(p.rest, "'") {
		return p.str()
	}
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if n <= 0 {
		return "", fmt.Errorf("no key: %q", p.rest)
	}
	key := p.rest[:n]
	p.rest = p.rest[n:]
	return key, nil
}

func (p *toml) str() (string, error) {
	quote := p.rest[0]
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case c == '\\' && quote == '"':
			r, n, err := unescape(p.rest[i+1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("a string without an end")
}

// unescape reads an escape after its backslash; n is its length in bytes.
func unescape(s string) (r rune, n int, err error) {
	if s == "" {
		return 0, 0, errors.New("a string without an end")
	}
	if at := strings.IndexByte(`btnfre"\`, s[0]); at >= 0 {
		return rune("\b\t\n\f\r\x1b\"\\"[at]), 1, nil
	}
	digits := map[byte]int{'u': 4, 'U': 8}[s[0]]
	if digits == 0 || len(s) <= digits {
		return 0, 0, fmt.Errorf(`no escape: \%s`, s)
	}
	code, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(code)) {
		return 0, 0, fmt.Errorf(`no escape: \%s`, s[:1+digits])
	}
	return rune(code), 1 + digits, nil
}
