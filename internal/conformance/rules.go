package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"lifeloop/lifeloop"
)

// A rule is a sentence that a client can break, quoted word for word from a
// document.
type rule struct{ id, sentence, document string }

const (
	guide    = "docs/writing-a-client.md"
	contract = "docs/contract/lifeloop.md" // a list of sentences of the contract
	renewing = "docs/renewal.md"
)

var (
	noAnswer     = rule{"no_answer", "time limit of one call, from its start to your exit or, in persistent mode, to the end of your line", guide}
	staysAlive   = rule{"stays_alive", "it reads one JSON document on stdin, prints one on stdout, and exits with 0", guide}
	exitStatus   = rule{"exit_status", "it reads one JSON document on stdin, prints one on stdout, and exits with 0", guide}
	endedEarly   = rule{"ended_early", "If you exit before an answer is complete, that event has failed", guide}
	notJSON      = rule{"not_json", "clients deserialize this single document from stdin and return a `CallbackResponse` on stdout", contract}
	tooLarge     = rule{"too_large", "At most 1 MiB of stdout is read.", guide}
	badMember    = rule{"schema", "The program enforces what the schemas say", guide}
	badVersion   = rule{"schema_version", "may be left out; if given, it is that of the request", guide}
	badFailure   = rule{"failure_class", "required with `failed`, absent or null otherwise", guide}
	looseRetry   = rule{"retry_class", "may be left out, which means the default of the failure class; if given, it must be that default or a more restrictive class, or the answer is invalid", guide}
	bodyAndRef   = rule{"body_and_ref", "`body` and `body_ref` are mutually exclusive.", contract}
	sizeDigest   = rule{"size_and_digest", "Lifeloop validates size, digest, encoding", contract}
	badPlace     = rule{"placement", "at least one `{placement, requirement}`, in your order of preference, each placement once", guide}
	extraOutput  = rule{"extra_output", "Print the answer without line breaks, then a newline, and flush it", guide}
	wrongOrder   = rule{"order", "Each envelope is one line on stdin, each answer one line on stdout, in order", guide}
	leftBehind   = rule{"leaves_processes", "leave no background work", guide}
	staysAtEnd   = rule{"stays_at_end", "you have 250 ms to finish; after that your group is killed.", guide}
	unknownName  = rule{"unknown_members", "Ignore unknown members.", guide}
	notPrepared  = rule{"renewal_prepare", "`prepare` runs and prints the continuation.", renewing}
	notContinued = rule{"renewal_continue", "`continue` gets the continuation and prints the text for the model.", renewing}
	keyReused    = rule{"idempotency_key", "Reusing an `idempotency_key` with different content is a `duplicate_id_conflict`", contract}
)

// A broken is a rule that an answer breaks, with a description of the error.
type broken struct {
	rule
	found string
}

// judge returns the rules that an answer breaks. Package lifeloop finds the errors in a
// JSON document; judge names the rule for each error.
func judge(body []byte, version string) (breaks []broken) {
	if text := bytes.TrimSpace(body); len(text) == 0 {
		return []broken{{notJSON, "it printed nothing"}}
	} else if text[0] != '{' || !json.Valid(text) {
		return []broken{{notJSON, "it printed " + shown(text)}}
	}
	answer, err := lifeloop.ParseCallbackResponse(body)
	if err == nil {
		err = answer.Validate(version)
	}
	var invalid *lifeloop.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	seen := map[string]bool{}
	for _, p := range invalid.Problems {
		if r := ruleOf(p.Path); !seen[r.id] {
			seen[r.id] = true
			breaks = append(breaks, broken{r, p.Path + ": " + p.Message})
		}
	}
	return breaks
}

// ruleOf returns the rule about a member of an answer.
func ruleOf(path string) rule {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case strings.Contains(path, "acceptable_placements"):
		return badPlace
	case path == "schema_version":
		return badVersion
	case name == "failure_class":
		return badFailure
	case name == "retry_class":
		return looseRetry
	case name == "body_ref":
		return bodyAndRef
	case name == "byte_size", name == "content_digest", name == "content_encoding", name == "body":
		return sizeDigest
	}
	return badMember
}

// shown returns the beginning of a text that the client printed, for a message.
func shown(text []byte) string {
	const most = 60
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "…"
	}
	return strings.ToValidUTF8(string(text), "")
}

// lastWords returns the end of a client's standard error.
func lastWords(text []byte) string {
	const most = 1 << 10
	text = bytes.TrimSpace(text)
	return strings.ToValidUTF8(string(text[max(0, len(text)-most):]), "")
}
