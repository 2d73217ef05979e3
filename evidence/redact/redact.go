// Package redact replaces secrets in text before it is written to evidence.
//
// It knows the shapes of common tokens, keys, headers and assignments. It cannot know
// every secret: a text without a mark may still hold one. It is pure and deterministic:
// the same text gives the same result, and a second pass changes nothing. JSON stays
// JSON, since neither a secret nor a mark contains a quote or a backslash.
//
//	r := redact.New()
//	text := r.Text(`export GITHUB_TOKEN=ghp_…`)
//	// export GITHUB_TOKEN=[redacted github sha256:2c26b46b68ffc68f]
package redact

import (
	"regexp"
	"strings"

	"lifeloop/evidence/sign"
)

// A Redactor has the compiled rules.
type Redactor struct{ rules []rule }

// A rule finds a secret: the last group of its expression.
type rule struct {
	name string
	find *regexp.Regexp
	// mixed limits the rule to secrets with a letter and a digit, where a word of prose
	// could be in the same place.
	mixed bool
}

// secretName matches a name whose value is probably a secret, but not a count such as
// max_tokens.
const secretName = `[A-Za-z0-9_.-]*(?i:token|secret|passwd|password|passphrase|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|credentials?)(?:[_-][A-Za-z0-9]+)?`

// New compiles the rules. The shapes of tokens are those that their issuers publish.
func New() *Redactor {
	r := &Redactor{}
	add := func(name, expression string, mixed bool) {
		r.rules = append(r.rules, rule{name, regexp.MustCompile(expression), mixed})
	}
	// Keys first: the other rules would find parts of them. The second rule is for a key
	// that is cut off; in JSON its line ends are \n.
	const begin = `-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`
	add("private_key", begin+`([^"\[][^"]*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`, false)
	add("private_key", begin+`((?:[A-Za-z0-9+/=]{10,}|[\r\n]|\\[nr])+)`, false)
	add("github", `\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`, false)
	add("gitlab", `\b(gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,})`, false)
	add("stripe", `\b((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,})`, false)
	add("api_key", `\b(sk-[A-Za-z0-9_-]{16,})`, false)
	add("aws", `\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b`, false)
	add("google", `\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})`, false)
	add("slack", `\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})`, false)
	add("package_registry", `\b(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|rubygems_[a-f0-9]{48})`, false)
	add("huggingface", `\b(hf_[A-Za-z0-9]{30,})`, false)
	add("jwt", `\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`, false)
	add("authorization", `(?i:\bauthorization\\?["']?\s*[:=]\s*\\?["']?(?:bearer|basic|token)\s+)([A-Za-z0-9._~+/=-]{6,})`, false)
	add("bearer", `(?i:\bbearer\s+)([A-Za-z0-9._~+/=-]{16,})`, true)
	add("url_password", `\b[a-z][a-z0-9+.-]*://[^\s/:@"'\\]*:([^\s/@"'\\\[\]]+)@`, false)
	add("assignment", `\b`+secretName+`\s*=\s*(?:\\?["'])?([^\s"'\\;&|<>,\[\](){}$]{6,})`, false)
	add("member", `"`+secretName+`\\?"\s*:\s*\\?"([^"\\\[\]]{6,})\\?"`, false)
	add("header", `\b`+secretName+`:\s+([^\s"'\\;&|<>,\[\](){}$]{8,})`, true)
	return r
}

// Text returns text with a mark in the place of each secret. A mark names the rule and
// has the first 16 digits of the secret's SHA-256, so that equal secrets can be compared.
func (r *Redactor) Text(text string) string {
	for _, rule := range r.rules {
		text = rule.apply(text)
	}
	return text
}

func (r rule) apply(text string) string {
	var out strings.Builder
	at := 0
	for _, m := range r.find.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[len(m)-2], m[len(m)-1]
		secret := text[from:to]
		if r.mixed && !mixed(secret) {
			continue
		}
		out.WriteString(text[at:from])
		out.WriteString("[redacted " + r.name + " sha256:" + sign.Sum([]byte(secret))[:16] + "]")
		at = to
	}
	if at == 0 {
		return text
	}
	out.WriteString(text[at:])
	return out.String()
}

// mixed reports whether s has a letter and a digit.
func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
}
