package redact

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// secretName matches a name whose value is probably a secret, such as api_key. It does not
// match all of max_tokens, because the value of that name is a count.
const secretName = `[A-Za-z0-9_.-]*(?i:token|secret|passwd|password|passphrase|api[_-]?key|(?:access|account|secret|private|signing|encryption)[_-]?key|client[_-]?key[_-]?data|credentials?)(?:[_-][A-Za-z0-9]+)?`

// nameWords returns words; each text that secretName matches contains one of them.
func nameWords() []string {
	words := []string{"token", "secret", "passwd", "password", "passphrase", "credential", "client-key", "client_key", "clientkey"}
	for _, kind := range []string{"api", "access", "account", "private", "signing", "encryption"} {
		words = append(words, kind+"key", kind+"_key", kind+"-key")
	}
	return words
}

// value matches one character of what can follow PASSWORD= in a command or a file.
const value = `[^\s"'\\;&|<>,\[\](){}$]`

// base64 has the characters of base64.
const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

// identifier matches a name without digits in program code, such as apiKey or API_KEY.
const identifier = `_*(?:[A-Z]+(?:_[A-Z]+)*|[A-Za-z][a-z]*(?:[A-Z][a-z]{2,})*(?:_[a-z]+)*)`

// wordEnd matches what may follow a name in a program, such as a space or a comma, or the
// end of the text.
const wordEnd = `(?:[\s;,)\]}"'\\+` + "`" + `]|$)`

// gap matches white space, also in the form that it has in JSON, such as \n or \t.
const gap = `(?:\s|\\+[nrt])`

// New compiles the rules. The shapes of tokens are those that their issuers publish, or
// that the rules of gitleaks have.
func New() *Redactor {
	r := &Redactor{
		names: regexp.MustCompile(secretName + `$`),
		mark:  regexp.MustCompile(`\[redacted [a-z_]+ sha256:[0-9a-f]{16}\]`),
		lines: regexp.MustCompile(`^\\*["']\s*,\s*\\*["']([A-Za-z0-9+/=]{16,})`),
		begin: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`),
		base:  regexp.MustCompile(`[A-Za-z0-9+/=]{16,}`),
		call:  regexp.MustCompile(`^[!&*]*(?:(?:await|new)\s+)?[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)\w+)*!?[(\[{<]`),
		path:  regexp.MustCompile(`^[!&*]*(?:await\s+)?(` + identifier + `(?:(?:\.|::|->|\?\.)` + identifier + `)*)[!?]?` + wordEnd),
		named: regexp.MustCompile(`^[A-Za-z_]\w*(?:Token|Secret|Password|Passphrase|Key|Credentials?|_(?:token|secret|password|passphrase|key|credentials?))` + wordEnd),
		eol:   regexp.MustCompile(`\r?\n|\\+[nr]`),
		end:   regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`),
	}
	r.keys()
	r.headers()
	r.vendors()
	r.addresses()
	r.assignments()
	r.flags()
	return r
}

func (r *Redactor) add(name, expression string, keep func(string) bool, words ...string) {
	r.addExtended(name, expression, keep, nil, words...)
}

// followedBy sets the field next of the rule that was added last.
func (r *Redactor) followedBy(next string) { r.rules[len(r.rules)-1].next = next }

func (r *Redactor) addExtended(name, expression string, keep func(string) bool, extend func(string, []int) ([]span, int), words ...string) {
	r.rules = append(r.rules, rule{name: name, words: words, find: regexp.MustCompile(expression), keep: keep, extend: extend})
}

// keys adds the rules for private keys. These rules come first, because other rules would
// find parts of a key.
func (r *Redactor) keys() {
	r.addExtended("private_key", r.begin.String(), nil, r.key, "private key-----", "private key block-----")
	r.add("private_key", `Private-Lines: [0-9]+((?:[A-Za-z0-9+/=]{10,}|`+gap+`)+)`, nil, "private-lines:")
}

// key returns what follows the first line of a private key, up to the key's last line, the
// end of the string that contains the key, the next -----BEGIN, or the end of the text.
// What precedes each line of the key, such as a line number, is included. key returns
// nothing where a text only mentions the first line of a key.
func (r *Redactor) key(text string, m []int) ([]span, int) {
	from, to := m[1], len(text)
	if i := strings.Index(text[from:], "-----BEGIN "); i >= 0 {
		to = from + i
	}
	if i := strings.IndexAny(text[from:to], "\"'`"); i >= 0 {
		to = from + i
	}
	if e := r.end.FindStringIndex(text[from:to]); e != nil {
		if part := text[from : from+e[0]]; !r.beginsKey(part) && !slices.ContainsFunc(r.base.FindAllString(part, -1), isKey) {
			return nil, from + e[1]
		}
		return []span{{from, from + e[0]}}, from + e[1]
	}
	for to > from && text[to-1] == '\\' {
		to--
	}
	var list []span
	if r.beginsKey(text[from:to]) {
		list = []span{{from, to}}
	}
	for rest := to; ; { // in a JSON array with a string for each line, the next strings are lines of the key, too
		e := r.lines.FindStringSubmatchIndex(text[rest:min(len(text), rest+1000)])
		if e == nil {
			return list, rest
		}
		list = append(list, span{rest + e[2], rest + e[3]})
		rest += e[1]
	}
}

// isKey reports whether a run of base64 is probably a part of a key, and not a name. A
// key has letters of both cases. It also has a digit or a +, or begins with MI, as most
// keys do.
func isKey(run string) bool {
	return len(run) >= 16 && strings.ToLower(run) != run && strings.ToUpper(run) != run && (strings.ContainsAny(run, "0123456789+") || strings.HasPrefix(run, "MI"))
}

// beginsKey reports whether a key begins in text, which starts right after a marker, either
// -----BEGIN … PRIVATE KEY----- or -----BEGIN … PRIVATE KEY BLOCK-----. If the marker's line
// has more text, that text must begin with a part of the key. Otherwise a part of the key
// must be at the end of the next line that is neither empty nor a header, such as
// Proc-Type: 4,ENCRYPTED.
func (r *Redactor) beginsKey(text string) bool {
	const headers = 30
	for n := range headers {
		line, next := text, len(text)
		if e := r.eol.FindStringIndex(text); e != nil {
			line, next = text[:e[0]], e[1]
		}
		line, text = strings.Trim(strings.ReplaceAll(line, `\/`, "/"), " \t\\"), text[next:]
		switch {
		case n == 0 && line != "":
			i := r.base.FindStringIndex(line)
			return i != nil && i[0] == 0 && isKey(line[:i[1]])
		case line != "" && !strings.Contains(line, ": "):
			return isKey(line[len(strings.TrimRight(line, base64)):])
		}
	}
	return false
}

func (r *Redactor) headers() {
	r.add("authorization", `\bDigest\s[^\n]{0,400}?response=\\*"([0-9a-f]{32})`, nil, "response=")
	r.addExtended("authorization", `(?i)(\\*["'])?\b(?:proxy-)?authorization(?:(\\*["'])\]?\s*(?:[:+]=|=>|[:,=])\s*(\\*["'])|\s*(?:[:+]=|=>|[:=])\s*(\\*["'])?)`, unsaid, r.headerValue, "authorization")
	r.followedBy(":=,+")
	r.addExtended("cookie", `(?i)(\\*["'])?\b(?:set-)?cookie(?:(\\*["'])\s*[:,]\s*(\\*["'])|\s*:\s*(\\*["'])?)`,
		func(s string) bool { return unsaid(s) || strings.HasPrefix(s, "=") || !strings.Contains(s, "=") }, r.headerValue, "cookie")
	r.followedBy(":,")
	r.add("bearer", `(?i:\bbearer\s+)([A-Za-z0-9._~+/=-]{16,})`, prose, "bearer")
}

// headerValue returns the whole value of a header. A value in quotes ends with its string.
// A value without quotes ends at the next quote or backslash, or with its line. If such a
// value looks like a program's expression (see [Redactor.expression]) or like a sentence,
// headerValue returns nothing.
func (r *Redactor) headerValue(text string, m []int) ([]span, int) {
	from := m[1]
	opening := ""
	for _, g := range []int{3, 4} {
		if m[2*g] >= 0 {
			opening = text[m[2*g]:m[2*g+1]]
		}
	}
	if opening != "" {
		to := quotedUntil(text, from, len(opening)-1, opening[len(opening)-1])
		return []span{{from, trimmed(text, from, to)}}, to
	}
	if r.expression(text[from:min(len(text), from+200)]) || sentence(text[from:min(len(text), from+200)]) {
		return nil, from
	}
	to := len(text)
	if i := strings.IndexAny(text[from:], "\r\n\"'\\`"); i >= 0 {
		to = from + i
	}
	return []span{{from, trimmed(text, from, to)}}, to
}

// expression reports whether the text begins with an expression of a program: a call, a
// member such as config.key, or a name of several words, such as apiKey. A name of
// several words counts only if the name is alone on its line.
func (r *Redactor) expression(text string) bool {
	m := r.path.FindStringSubmatch(text)
	line, _, _ := strings.Cut(text, "\n")
	return r.call.MatchString(text) || m != nil && (strings.ContainsAny(m[1], ".:>") ||
		len(strings.Fields(strings.TrimRight(line, " \t\r)]};,"))) == 1 && 'a' <= m[1][0] && strings.ContainsAny(m[1], "_ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
}

// trimmed returns the index at which text[from:to] ends without its trailing white space.
func trimmed(text string, from, to int) int {
	return from + len(strings.TrimRight(text[from:to], " \t\r\n\f\v"))
}

// unsaid reports whether the value of a header holds no secret. This is so if the value is
// short, or if it is a single word of prose, the name of a header, a variable, a
// placeholder or a sentence.
func unsaid(s string) bool {
	fields := strings.Fields(s)
	if len(s) < 6 || len(fields) == 0 || len(fields) == 1 && (word(s) || headerName(s)) {
		return true
	}
	if last := fields[min(1, len(fields)-1)]; strings.ContainsAny(fields[0][:1], "$<{%*") || strings.ContainsAny(last[:1], "$<{%*") {
		return true
	}
	return sentence(s) || len(fields) > 2 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:()-") == ""
}

// headerName reports whether s, which follows the name of a header, is itself the name of
// a header, such as Content-Type. Then the text is a list of names, and s is no secret.
func headerName(s string) bool {
	return !slices.ContainsFunc(strings.Split(s, "-"), func(part string) bool { return part == "" || part[0] < 'A' || 'Z' < part[0] || !word(part) })
}

// sentence reports whether a text begins with two words. A name of an authorization scheme
// at its beginning is skipped first and counts as neither of them.
func sentence(s string) bool {
	if i := strings.IndexAny(s, "\r\n\"'\\`"); i >= 0 {
		s = s[:i]
	}
	fields := strings.Fields(s)
	if len(fields) > 0 && slices.Contains([]string{"apikey", "basic", "bearer", "digest", "hawk", "negotiate", "ntlm", "token"}, lower(fields[0])) {
		fields = fields[1:]
	}
	return len(fields) > 1 && word(strings.Trim(fields[0], "(,;)")) && word(strings.Trim(fields[1], "(,;)"))
}

func (r *Redactor) vendors() {
	r.add("github", `\b(gh[pousrv]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`, nil, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "ghv_", "github_pat_")
	r.add("gitlab", `\b(gl(?:pat|dt|rt|cbt|ptt|oas)-[A-Za-z0-9_-]{20,}|gloas-[A-Za-z0-9_-]{20,}|GR1348941[A-Za-z0-9_-]{20,})`, nil, "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "gloas-", "gr1348941")
	r.add("stripe", `\b((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,})`, nil, "k_live_", "k_test_")
	r.add("api_key", `\b(sk-[A-Za-z0-9_-]{16,})`, nil, "sk-")
	r.add("aws", `\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b`, nil, "akia", "asia", "abia", "acca")
	r.add("google", `\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})`, nil, "aiza", "ya29.", "gocspx-")
	r.add("google", `(?:^|[\s"'=:])(1//0[A-Za-z0-9_-]{40,})`, nil, "1//0")
	r.add("slack", `\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})`, nil, "xox", "xapp-")
	r.add("package_registry", `\b(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|rubygems_[a-f0-9]{48})`, nil, "npm_", "pypi-", "rubygems_")
	r.add("huggingface", `\b(hf_[A-Za-z0-9]{30,})`, nil, "hf_")
	r.add("sendgrid", `\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})`, nil, "sg.")
	r.add("age", `\b(AGE-SECRET-KEY-1[0-9A-Z]{20,})`, nil, "age-secret-key-1")
	r.add("webhook", `\bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,})`, nil, "hooks.slack.com/")
	r.add("webhook", `\bdiscord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]{20,})`, nil, "/api/webhooks/")
	r.add("service", `\b(dop_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|lin_api_[A-Za-z0-9]{40}|gl(?:sa|c)_[A-Za-z0-9_+/=]{32,}|hvs\.[A-Za-z0-9_-]{24,}|tskey-[a-z]+-[A-Za-z0-9-]{16,}|dapi[a-f0-9]{32})`, nil,
		"dop_v1_", "shpat_", "shpca_", "shppa_", "shpss_", "lin_api_", "glsa_", "glc_", "hvs.", "tskey-", "dapi")
	r.add("service", `\b(gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{30,}|sntry[su]_[A-Za-z0-9+/=_-]{40,}|ntn_[A-Za-z0-9]{40,}|fig[dou]_[A-Za-z0-9_-]{30,}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,})`, nil,
		"gsk_", "xai-", "pplx-", "r8_", "sntry", "ntn_", "figd_", "figo_", "figu_", "pmak-", "dp.")
	r.add("service", `\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}|ATBB[A-Za-z0-9]{24,}|ATATT3[A-Za-z0-9_=-]{50,}|sbp_[a-f0-9]{40}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9=._-]{30,}|NRAK-[A-Z0-9]{27}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|HRKU-[A-Za-z0-9_-]{30,})`, nil,
		".atlasv1.", "atbb", "atatt3", "sbp_", "pscale_", "nrak-", "sq0", "hrku-")
	r.add("jwt", `\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`, nil, "eyj")
}

func (r *Redactor) addresses() {
	const scheme = `(?i)\b[a-z][a-z0-9+.-]*://`
	// The text after the colon may contain a slash and an @. If it begins with a number
	// that is followed by /, ? or #, the number is the port, and the text is no password.
	// A text that begins with / is a password, because some programs accept /x as one.
	r.add("url_password", scheme+`[^\s/:@"'\\]*:([^\s@"'\\\[\]]+(?:@[^\s@/?#,"'\\\[\]]*)*)@`, func(s string) bool {
		i := strings.IndexAny(s, "/?#")
		return i > 0 && number(s[:i])
	}, "://")
	r.add("url_password", scheme+`([^\s/:@"'\\\[\]]{16,})@`, prose, "://")
	r.add("url_query", `(?i)(?:[?&]|\\u0026)(?:key|sig|signature|auth|hmac|x-(?:amz|goog)-(?:signature|credential|security-token))=(`+value+`{8,})`, prose, "key=", "sig=", "signature=", "auth=", "hmac=", "credential=", "token=")
}

func (r *Redactor) assignments() {
	names := nameWords()
	const start = `(?:^|[^A-Za-z0-9_.-]|\\[nrt])` // what precedes a name, for example an escaped end of a line
	const is = `(?:\\*["'])?\]?\s*(?:[:+]=|=>|=)\s*(\\*["'])?`
	r.addExtended("assignment", `\b(`+secretName+`)`+is, nil, r.assigned(6, nil), names...)
	r.followedBy(":=+")
	r.addExtended("assignment", start+`((?:[A-Z0-9_]+_)?PASS)`+is, nil, r.assigned(4, nil), "pass")
	r.followedBy(":=+")
	r.add("assignment", `\b[A-Z0-9_]+_PWD=(?:\\?["'])?([^/\s"'\\;&|<>,\[\](){}$]`+value+`{3,})`, nil, "_pwd=")
	r.addExtended("assignment", start+`((?:[a-z0-9_]+_)?pass)`+is, nil, r.assigned(6, prose), "pass")
	r.followedBy(":=+")
	r.add("assignment", `\b_auth=(?:\\?["'])?(`+value+`{6,})`, nil, "_auth=")
	r.add("assignment", `\blogin`+gap+`+[^\s\\]+`+gap+`+password`+gap+`+(`+value+`{3,})`, nil, "login")
	member := func(text string, m []int) ([]span, int) {
		name, opening := text[m[2]:m[3]], text[m[4]:m[5]]
		if len(name) != len(opening) { // one of the two quotes belongs to an enclosing string
			return nil, 0
		}
		to := quotedUntil(text, m[1], len(opening)-1, opening[len(opening)-1])
		return []span{{m[1], to}}, to
	}
	short := func(s string) bool { return len(s) < 4 || variable(s) }
	r.addExtended("member", `["']`+secretName+`(\\*["'])\s*:\s*(\\*["'])`, short, member, names...)
	r.followedBy(":=")
	r.addExtended("member", `["'](?i:_?auth|identitytoken)(\\*["'])\s*:\s*(\\*["'])`, func(s string) bool { return len(s) < 12 || prose(s) }, member, "auth\"", "auth\\", "auth'", "identitytoken")
	r.addExtended("member", `["'](?i:pwd|passcode|otp|pin)(\\*["'])\s*:\s*(\\*["'])`, func(s string) bool {
		return short(s) || strings.ContainsAny(s[:1], `/~.\`) || strings.Contains(s, `:\`)
	}, member, "pwd", "passcode", "otp", "pin")
	r.addExtended("member", `["']`+secretName+`s?(\\*["'])\s*:\s*\[\s*(\\*["'])`, func(s string) bool { return len(s) < 6 || prose(s) }, func(text string, m []int) ([]span, int) {
		opening := text[m[4]:m[5]]
		var list []span
		for from := m[1]; ; {
			to := quotedUntil(text, from, len(opening)-1, opening[len(opening)-1])
			list = append(list, span{from, to})
			rest, ok := strings.CutPrefix(text[to:], opening)
			comma := strings.TrimLeft(rest, " \t\r\n")
			next := strings.TrimLeft(strings.TrimPrefix(comma, ","), " \t\r\n")
			if !ok || !strings.HasPrefix(comma, ",") || !strings.HasPrefix(next, opening) {
				return list, to
			}
			from = len(text) - len(next) + len(opening)
		}
	}, names...)
	r.followedBy(":=")
	r.addExtended("member", `\b(`+secretName+`)'?\s*:\s*(\\*["'])`, nil, r.assigned(4, nil), names...) // YAML
	r.followedBy(":=")
	r.add("header", `\b`+secretName+`:\s+(`+value+`{6,})`, func(s string) bool { return prose(s) || r.named.MatchString(s) }, names...)
	r.followedBy(":=")
	const passName = start + `([A-Z0-9_]+_PASS|(?:(?:admin|db|ftp|mail|proxy|root|smtp|user)_)?pass)`
	r.addExtended("member", passName+`:\s*(\\*["'])`, nil, r.assigned(4, nil), "pass:")
	r.add("header", passName+`:[ \t]+(`+value+`{6,})`, prose, "pass:")
}

// assigned returns a function that finds the value of a name: a string, or a bare value
// that is not an expression of a program. A value that has fewer than "least" characters,
// or for which keep returns true, stays as it is.
func (r *Redactor) assigned(least int, keep func(string) bool) func(string, []int) ([]span, int) {
	const longest = 4096 // the largest size of a string in bytes, so that the time stays linear
	bare := regexp.MustCompile(fmt.Sprintf(`^%s{%d,}`, value, least))
	first := regexp.MustCompile(`^` + value)
	return func(text string, m []int) ([]span, int) {
		from := m[1]
		if m[4] >= 0 {
			opening := text[m[4]:m[5]]
			to := quotedUntil(text[:min(len(text), from+longest)], from, len(opening)-1, opening[len(opening)-1])
			if s := text[from:to]; strings.HasPrefix(text[to:], opening) {
				if len(s) < least || !first.MatchString(s) || between(s) || keep != nil && keep(s) {
					return nil, from
				}
				return []span{{from, to}}, to
			}
		}
		s := bare.FindString(text[from:])
		if s == "" || keep != nil && keep(s) || m[4] < 0 && r.computed(text[m[2]:m[3]], text[m[3]:from], text[from:min(len(text), from+200)]) {
			return nil, from
		}
		return []span{{from, from + len(s)}}, from + len(s)
	}
}

// between reports whether s is probably code between two strings of a program, such as
// + name +, and not the content of a string.
func between(s string) bool {
	return strings.TrimSpace(s) != s || strings.HasPrefix(s, "+") && strings.HasSuffix(s, "+")
}

// computed reports whether an expression of a program is assigned to a name. In
// NAME=value, as in a shell, the value is not such an expression.
func (r *Redactor) computed(name, is, text string) bool {
	code := strings.ContainsAny(is, " \t+:>")
	if !code && lower(name) != name && strings.ToUpper(name) == name {
		return false
	}
	if s := r.call.FindString(text); s != "" {
		return code || !strings.ContainsAny(s, "0123456789")
	}
	if code && r.named.MatchString(text) {
		return true
	}
	m := r.path.FindStringSubmatch(text)
	return m != nil && (strings.ContainsAny(m[1], ".:>") || m[1] == "undefined" || r.names.MatchString(m[1]) || strings.HasSuffix(lower(m[1]), "pass"))
}

// variable reports whether a value only refers to a variable, as in ${NAME}. The secret
// itself is then elsewhere.
func variable(s string) bool { return strings.HasPrefix(s, "${") && strings.HasSuffix(s, "}") }

func (r *Redactor) flags() {
	r.add("flag", `(?:^|[\s"'(,])--?(?:[A-Za-z0-9]+[_-])*(?i:token|secret|passwd|password|passphrase|pass|pwd|(?:api|access|secret)[_-]?key)\\?["']?(?:\s+|\s*,\s*|=)(?:\\?["'])?([^\s"'\\;&|<>,\[\](){}$/~.@-]`+value+`{3,})`, word,
		"token", "secret", "pass", "pwd", "key")
	r.command("curl", `(?:-[a-zA-Z]*[uU]|--user|--proxy-user)[\s=]*(?:\\?["'])?[^\s:"'\\$\[]+:(`+value+`+)`)
	r.command("docker|podman", `-p[\s=]*(?:\\?["'])?(`+value+`{4,})`)
	r.command("sshpass", `-p\s*(?:\\?["'])?(`+value+`{4,})`)
	r.command("mysql|mysqldump|mysqladmin", `-p(`+value+`{4,})`)
}

// command adds a rule for an option of some programs. The rule searches each command once,
// from the name of the program to the end of the command, including continued lines.
func (r *Redactor) command(programs, option string) {
	find := regexp.MustCompile(`(?:\s|\\n)` + option)
	r.addExtended("flag", `\b(?:`+programs+`)\b`, nil, func(text string, m []int) ([]span, int) {
		if strings.HasPrefix(programs, "docker") && !strings.HasPrefix(strings.TrimLeft(text[m[1]:], " \t"), "login") {
			return nil, 0
		}
		to := commandEnd(text, m[1])
		var list []span
		for _, f := range find.FindAllStringSubmatchIndex(text[m[1]:to], -1) {
			list = append(list, span{m[1] + f[2], m[1] + f[3]})
		}
		return list, to
	}, strings.Split(programs, "|")...)
}

// commandEnd returns where a command ends: at the next operator of the shell, or at the
// end of the first line that is not continued. The search begins at the index from.
func commandEnd(text string, from int) int {
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '|', ';', '&', '\n':
			return i
		case '\\':
			n := 1
			for i+n < len(text) && text[i+n] == '\\' {
				n++
			}
			if i+n < len(text) && text[i+n] == 'n' && n == 1 {
				return i // \n is an escaped newline; \\\n is an escaped backslash and newline, and continues the line
			}
			i += n
		}
	}
	return len(text)
}
