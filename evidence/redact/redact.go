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
	// keep reports whether what was found is kept, for a rule that also finds words of
	// prose; nil keeps nothing.
	keep func(string) bool
}

// secretName matches a name whose value is probably a secret, but not a count such as
// max_tokens.
const secretName = `[A-Za-z0-9_.-]*(?i:token|secret|passwd|password|passphrase|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|credentials?)(?:[_-][A-Za-z0-9]+)?`

// value matches one character of what can follow PASSWORD= in a command or a file.
const value = `[^\s"'\\;&|<>,\[\](){}$]`

// inCommand matches the arguments between a command and its option, on one line or on
// continued ones, also in JSON.
const inCommand = `\b(?:[^|;&\n\\]|\\[^n]|\\\n|\\\\\\n){0,300}?\s`

// New compiles the rules. The shapes of tokens are those that their issuers publish, or
// that the rules of gitleaks have.
func New() *Redactor {
	r := &Redactor{}
	add := func(name, expression string, keep func(string) bool) {
		r.rules = append(r.rules, rule{name, regexp.MustCompile(expression), keep})
	}
	// Keys first: the other rules would find parts of them. The second rule is for a key
	// that is cut off; in JSON its line ends are \n.
	const begin = `-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`
	add("private_key", begin+`([^"\[][^"]*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`, nil)
	add("private_key", begin+`((?:[A-Za-z0-9+/=]{10,}|[\r\n]|\\[nr])+)`, nil)
	add("github", `\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`, nil)
	add("gitlab", `\b(gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,})`, nil)
	add("stripe", `\b((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,})`, nil)
	add("api_key", `\b(sk-[A-Za-z0-9_-]{16,})`, nil)
	add("aws", `\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b`, nil)
	add("google", `\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})`, nil)
	add("slack", `\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})`, nil)
	add("package_registry", `\b(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|rubygems_[a-f0-9]{48})`, nil)
	add("huggingface", `\b(hf_[A-Za-z0-9]{30,})`, nil)
	add("sendgrid", `\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})`, nil)
	add("age", `\b(AGE-SECRET-KEY-1[0-9A-Z]{20,})`, nil)
	add("webhook", `\bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,})`, nil)
	add("webhook", `\bdiscord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]{20,})`, nil)
	add("service", `\b(dop_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|lin_api_[A-Za-z0-9]{40}|glsa_[A-Za-z0-9_]{32,}|hvs\.[A-Za-z0-9_-]{24,}|tskey-[a-z]+-[A-Za-z0-9-]{16,}|dapi[a-f0-9]{32})\b`, nil)
	add("jwt", `\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`, nil)
	add("authorization", `(?i:\bauthorization\\?["']?\s*[:=]\s*\\?["']?(?:bearer|basic|token)\s+)([A-Za-z0-9._~+/=-]{6,})`, nil)
	add("bearer", `(?i:\bbearer\s+)([A-Za-z0-9._~+/=-]{16,})`, prose)
	add("url_password", `\b[a-z][a-z0-9+.-]*://[^\s/:@"'\\]*:([^\s/@"'\\\[\]]+)@`, nil)
	add("assignment", `\b`+secretName+`\s*=\s*(?:\\?["'])?(`+value+`{6,})`, nil)
	add("assignment", `\b(?:[A-Z0-9_]+_)?PASS=(?:\\?["'])?(`+value+`{4,})`, nil)
	add("assignment", `\b[A-Z0-9_]+_PWD=(?:\\?["'])?([^/\s"'\\;&|<>,\[\](){}$]`+value+`{3,})`, nil)
	add("assignment", `\b(?:[a-z0-9_]+_)?pass(?:\s=\s|=)(?:\\?["'])?(`+value+`{6,})`, prose)
	add("member", `"`+secretName+`\\?"\s*:\s*\\?"([^"\\\[\]]{6,})\\?"`, nil)
	add("member", `\b`+secretName+`\s*:\s*\\?"([^"\\\[\]{},:\s]{4,})\\?"`, nil) // YAML
	add("member", `\b`+secretName+`'?\s*:\s*'([^'"\\\[\]{},:\s]{4,})'`, nil)
	add("header", `\b`+secretName+`:\s+(`+value+`{6,})`, prose)
	add("flag", `(?:^|[\s"'(,])--?(?:[A-Za-z0-9]+[_-])*(?i:token|secret|passwd|password|passphrase|pass|pwd|(?:api|access|secret)[_-]?key)\\?["']?(?:\s+|\s*,\s*|=)(?:\\?["'])?([^\s"'\\;&|<>,\[\](){}$/~.@-]`+value+`{3,})`, word)
	add("flag", `\bcurl`+inCommand+`(?:-[a-zA-Z]*[uU]|--user|--proxy-user)[\s=]*(?:\\?["'])?[^\s:"'\\$\[]+:(`+value+`+)`, nil)
	add("flag", `\b(?:docker|podman)\s+login`+inCommand+`-p[\s=]*(?:\\?["'])?(`+value+`{4,})`, nil)
	add("flag", `\bsshpass`+inCommand+`-p\s*(?:\\?["'])?(`+value+`{4,})`, nil)
	add("flag", `\bmysql(?:dump|admin)?`+inCommand+`-p(`+value+`{4,})`, nil)
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
		if r.keep != nil && r.keep(secret) {
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

// prose reports whether s has no digit or no letter. It is then probably a word or a
// number of a sentence, and not a secret.
func prose(s string) bool {
	return !strings.ContainsAny(s, "0123456789") || !strings.ContainsFunc(s, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
}

// word reports whether s is a word, such as the one after the name of a flag in a
// sentence, or the NAME of a value in a usage text.
func word(s string) bool {
	s = strings.TrimRight(s, ".:!?")
	rest := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz")
	if len(s) > 0 && 'A' <= s[0] && s[0] <= 'Z' && len(rest) == len(s) {
		rest = strings.TrimLeft(s[1:], "abcdefghijklmnopqrstuvwxyz")
	}
	return rest == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
}
