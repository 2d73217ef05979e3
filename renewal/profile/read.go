package profile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lifeloop/internal/document"
)

// The names that may appear in braces in a word of a command.
const (
	Adapter        = "adapter"         // the adapter's id
	HarnessSession = "harness_session" // the id of the harness session that ends
	TokenText      = "token"           // the continuation; other users of the machine can see it
	TokenFile      = "token_file"      // the path of a file with the continuation, removed when the program has ended
)

func names() []string { return []string{Adapter, HarnessSession, TokenText, TokenFile} }

func brace(name string) string { return "{" + name + "}" }

// Fill replaces the names in braces in each word. A name without a value stays.
func Fill(command []string, values map[string]string) []string {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, brace(name), value)
	}
	// One pass, so that a value is never searched for names.
	fill := strings.NewReplacer(pairs...)
	out := make([]string, len(command))
	for i, word := range command {
		out[i] = fill.Replace(word)
	}
	return out
}

// In reports whether a client's answer asks for a renewal: whether the member a.Member
// of the answer has the value a.Value.
func (a Asks) In(answer []byte) bool {
	if a.Member == "" || !bytes.Contains(answer, []byte(a.Value)) {
		return false
	}
	root, err := document.ParseJSON(answer)
	v, ok := member(root, a.Member)
	return err == nil && ok && v.Kind == document.String && v.Text == a.Value
}

// member finds a nested member by its path of names.
func member(v document.Value, path string) (document.Value, bool) {
	for name := range strings.SplitSeq(path, ".") {
		next, ok := v.Member(name)
		if !ok {
			return v, false
		}
		v = next
	}
	return v, true
}

// Read returns the continuation in the output of a program, and its expiry in
// seconds since 1970 (0: the output has none). An empty continuation is an error.
func (t Token) Read(output []byte) (text string, expires int64, err error) {
	if !utf8.Valid(output) {
		return "", 0, errors.New("the output is not UTF-8")
	}
	trimmed := bytes.TrimSpace(output)
	if len(trimmed) == 0 {
		return "", 0, errors.New("the output is empty")
	}
	for _, form := range t.From {
		switch {
		case form == JSON && trimmed[0] == '{':
			return t.object(output)
		case form == Line && !bytes.ContainsAny(trimmed, "\r\n"):
			return string(trimmed), 0, nil
		case form == Text:
			return strings.TrimSuffix(string(output), "\n"), 0, nil
		}
	}
	return "", 0, fmt.Errorf("the output is not %s", t.forms())
}

func (t Token) object(output []byte) (text string, expires int64, err error) {
	root, err := document.ParseJSON(output)
	if err != nil {
		return "", 0, errors.New("the output begins like a JSON object but is not valid JSON") // err is not included, because it quotes the output
	}
	v, ok := member(root, t.Member)
	if !ok || v.Kind != document.String || v.Text == "" {
		return "", 0, fmt.Errorf("the output has no text in the member %s", t.Member)
	}
	if e, ok := member(root, t.Expires); t.Expires != "" && ok && e.Kind != document.Null {
		if expires, err = strconv.ParseInt(e.Text, 10, 64); err != nil || e.Kind != document.Number || expires <= 0 {
			return "", 0, fmt.Errorf("the member %s of the output is not a time in seconds since 1970", t.Expires)
		}
	}
	return v.Text, expires, nil
}

// forms describes in words the forms that the output may have.
func (t Token) forms() string {
	words := map[Form]string{JSON: "a JSON object", Line: "one line"}
	var list []string
	for _, form := range slices.Compact(slices.Clone(t.From)) {
		list = append(list, words[form])
	}
	return strings.Join(list, " or ")
}
