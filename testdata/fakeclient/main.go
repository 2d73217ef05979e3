// Command fakeclient is a scripted callback client: it reads one dispatch
// envelope on stdin and behaves as its flags say. Like a real client it shares no
// code with lifeloop-wrap.
//
//	fakeclient --log asked.jsonl --on frame.opening \
//	  --payload 'kind=note,placement=pre_prompt_frame,requirement=required,body=hello, world'
//
// A payload is a list of key=value, separated by commas; a piece without a
// known key belongs to the value before it. placement may be repeated, each
// followed by its requirement. Keys: id kind format encoding body ref placement
// requirement expires key size digest; size and digest override the computed
// values ("digest=none" omits it).
//
// Its steps are: fork, read, log, stderr, delay, then the answer or a failure.
// With --persistent it repeats all but the fork for every line of stdin, and the
// answer is a line too:
//
//	fakeclient --persistent --after 3 --crash
//
// gives three good answers and dies at the fourth envelope.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type script struct {
	clientID, status           string
	failureClass, retryClass   string
	payloads, on, warnings     list
	delay, linger, forkLinger  time.Duration
	exit, oversize, stderrSize int
	crash, badJSON, babble     bool
	ignoreStdin, echo, nameIt  bool
	persistent, twice, stay    bool
	strict, vary, lag          bool
	after, exitAfter           int
	log, stderr, fixed         string
	last                       string // id of the previous event
}

func main() {
	var s script
	flag.StringVar(&s.clientID, "client-id", cmp.Or(os.Getenv("LIFELOOP_CLIENT_ID"), "fakeclient"), "client_id of the payloads")
	flag.StringVar(&s.status, "status", "observed", "the answer's status")
	flag.StringVar(&s.failureClass, "failure-class", "", "the answer's failure_class (default internal_error if the status is failed)")
	flag.StringVar(&s.retryClass, "retry-class", "", "the answer's retry_class")
	flag.Var(&s.warnings, "warning", "a warning in the answer (repeatable)")
	flag.Var(&s.payloads, "payload", "a payload in the answer (repeatable)")
	flag.Var(&s.on, "on", "send payloads for this event only; a trailing * matches the rest (repeatable)")
	flag.DurationVar(&s.delay, "delay", 0, "wait before the answer")
	flag.IntVar(&s.exit, "exit", 0, "exit code, after the answer")
	flag.BoolVar(&s.crash, "crash", false, "die by SIGKILL instead of answering")
	flag.BoolVar(&s.badJSON, "bad-json", false, "answer half a document")
	flag.IntVar(&s.oversize, "oversize", 0, "pad the answer with spaces to `N` bytes")
	flag.BoolVar(&s.babble, "babble", false, "print endless output")
	flag.BoolVar(&s.ignoreStdin, "ignore-stdin", false, "do not read stdin")
	flag.DurationVar(&s.forkLinger, "fork-linger", 0, "leave a process behind that holds stdout for this long")
	flag.StringVar(&s.log, "log", "", "append the envelope to this `file` as one line")
	flag.BoolVar(&s.echo, "echo", false, "answer with the envelope itself, byte for byte")
	flag.StringVar(&s.stderr, "stderr", "", "print this on stderr")
	flag.IntVar(&s.stderrSize, "stderr-size", 0, "print `N` bytes on stderr before that")
	flag.BoolVar(&s.nameIt, "name-event", false, "return the event's id as a warning")
	flag.BoolVar(&s.persistent, "persistent", false, "answer each line of stdin with a line")
	flag.IntVar(&s.after, "after", 0, "with --persistent: answer the first `N` successfully and at once, despite other flags")
	flag.IntVar(&s.exitAfter, "exit-after", 0, "with --persistent: exit after `N` answers")
	flag.BoolVar(&s.stay, "stay", false, "do not exit: after the answer, or with --persistent when stdin ends")
	flag.StringVar(&s.fixed, "answer", "", "answer with this text")
	flag.BoolVar(&s.strict, "strict", false, "exit with 1 at a member that is not of the contract")
	flag.BoolVar(&s.vary, "vary", false, "the event's id is the body of each payload")
	flag.BoolVar(&s.lag, "lag", false, "with --persistent: return the id of the previous event as a warning")
	flag.BoolVar(&s.twice, "twice", false, "with --persistent: print each answer twice")
	flag.DurationVar(&s.linger, "linger", 0, "only sleep, as the process that fork-linger leaves behind")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "fakeclient: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if s.linger > 0 {
		time.Sleep(s.linger)
		return
	}
	if s.forkLinger > 0 {
		self, err := os.Executable()
		check(err)
		left := exec.Command(self, "--linger", s.forkLinger.String())
		left.Stdout = os.Stdout
		check(left.Start())
	}
	switch {
	case s.persistent:
		s.serveLines()
	case s.ignoreStdin:
		s.serve(nil, os.Stdout)
	default:
		envelope, err := io.ReadAll(os.Stdin)
		check(err)
		s.serve(envelope, os.Stdout)
	}
	for s.stay && !s.persistent {
		time.Sleep(time.Hour)
	}
	os.Exit(s.exit)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeclient:", err)
		os.Exit(1)
	}
}

// serveLines handles one envelope per line of stdin.
func (s script) serveLines() {
	good := script{clientID: s.clientID, status: "observed", nameIt: s.nameIt, log: s.log}
	lines := bufio.NewReader(os.Stdin)
	for n := 1; ; n++ {
		envelope, err := lines.ReadBytes('\n')
		if err == io.EOF && len(envelope) == 0 {
			for s.stay {
				time.Sleep(time.Hour)
			}
			return
		}
		check(err) // the end of input in the middle of a line is an error too
		does := s
		if n <= s.after {
			does = good
		}
		var line bytes.Buffer
		out := io.Writer(&line)
		if does.babble {
			out = os.Stdout
		}
		does.serve(bytes.TrimSuffix(envelope, []byte("\n")), out)
		var asked struct {
			Request struct {
				EventID string `json:"event_id"`
			}
		}
		check(json.Unmarshal(envelope, &asked))
		s.last = asked.Request.EventID
		line.WriteByte('\n')
		if does.twice {
			line = *bytes.NewBuffer(bytes.Repeat(line.Bytes(), 2))
		}
		_, err = os.Stdout.Write(line.Bytes())
		check(err)
		if n == s.exitAfter {
			return
		}
	}
}

// serve handles one envelope.
func (s script) serve(envelope []byte, stdout io.Writer) {
	if !s.ignoreStdin && s.log != "" {
		s.record(envelope)
	}
	fmt.Fprint(os.Stderr, strings.Repeat("x", s.stderrSize), s.stderr)
	time.Sleep(s.delay)

	answer := envelope
	switch {
	case s.crash:
		// The Go runtime turns the signals of a crash, such as SIGSEGV, into an exit code.
		check(errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("survived SIGKILL")))
	case s.babble:
		for {
			_, err := stdout.Write(bytes.Repeat([]byte("blah "), 1000))
			check(err)
		}
	case s.fixed != "":
		answer = []byte(s.fixed)
	case !s.echo:
		answer = s.answer(envelope)
		if s.badJSON {
			answer = answer[:len(answer)/2]
		}
		if n := s.oversize - len(answer); n > 0 {
			answer = append(answer, bytes.Repeat([]byte(" "), n)...)
		}
	}
	_, err := stdout.Write(answer)
	check(err)
}

// record appends with one write, so that concurrent clients can share a log.
func (s script) record(envelope []byte) {
	var line bytes.Buffer
	if err := json.Compact(&line, envelope); err != nil {
		check(fmt.Errorf("the envelope is not JSON: %w", err))
	}
	line.WriteByte('\n')
	f, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	_, err = f.Write(line.Bytes())
	check(errors.Join(err, f.Close()))
}

// known refuses a member that the contract does not have.
func known(envelope []byte) error {
	var doc struct {
		SchemaVersion json.RawMessage `json:"schema_version"`
		Payloads      json.RawMessage `json:"payloads"`
		Request       struct {
			SchemaVersion    json.RawMessage `json:"schema_version"`
			Event            json.RawMessage `json:"event"`
			EventID          json.RawMessage `json:"event_id"`
			AdapterID        json.RawMessage `json:"adapter_id"`
			AdapterVersion   json.RawMessage `json:"adapter_version"`
			IntegrationMode  json.RawMessage `json:"integration_mode"`
			InvocationID     json.RawMessage `json:"invocation_id"`
			HarnessSessionID json.RawMessage `json:"harness_session_id"`
			HarnessRunID     json.RawMessage `json:"harness_run_id"`
			HarnessTaskID    json.RawMessage `json:"harness_task_id"`
			FrameContext     json.RawMessage `json:"frame_context"`
			PayloadRefs      json.RawMessage `json:"payload_refs"`
			IdempotencyKey   json.RawMessage `json:"idempotency_key"`
			EventData        json.RawMessage `json:"event_data"`
		} `json:"request"`
	}
	dec := json.NewDecoder(bytes.NewReader(envelope))
	dec.DisallowUnknownFields()
	return dec.Decode(&doc)
}

type answer struct {
	SchemaVersion  string           `json:"schema_version,omitempty"`
	Status         string           `json:"status"`
	ClientPayloads []map[string]any `json:"client_payloads,omitempty"`
	Warnings       []string         `json:"warnings,omitempty"`
	FailureClass   string           `json:"failure_class,omitempty"`
	RetryClass     string           `json:"retry_class,omitempty"`
}

func (s script) answer(envelope []byte) []byte {
	var asked struct {
		SchemaVersion string `json:"schema_version"`
		Request       struct {
			Event   string `json:"event"`
			EventID string `json:"event_id"`
		} `json:"request"`
	}
	if s.strict {
		check(known(envelope))
	}
	if len(envelope) > 0 {
		if err := json.Unmarshal(envelope, &asked); err != nil {
			check(fmt.Errorf("read the envelope: %w", err))
		}
	}
	a := answer{
		SchemaVersion: asked.SchemaVersion, Status: s.status, Warnings: s.warnings,
		FailureClass: s.failureClass, RetryClass: s.retryClass,
	}
	if a.Status == "failed" && a.FailureClass == "" {
		a.FailureClass = "internal_error"
	}
	if s.lag {
		a.Warnings = append(a.Warnings, s.last)
	}
	if s.nameIt {
		a.Warnings = append(a.Warnings, asked.Request.EventID)
	}
	for i, spec := range s.payloads {
		if !s.on.matches(asked.Request.Event) {
			break
		}
		if s.vary {
			spec += ",body=" + asked.Request.EventID
		}
		p, err := s.payload(spec, fmt.Sprintf("pl_%s_%d", asked.Request.EventID, i+1))
		if err != nil {
			check(fmt.Errorf("payload %q: %w", spec, err))
		}
		a.ClientPayloads = append(a.ClientPayloads, p)
	}
	text, err := json.Marshal(a)
	check(err)
	return text
}

func (s script) payload(spec, id string) (map[string]any, error) {
	type placement struct {
		Placement   string `json:"placement"`
		Requirement string `json:"requirement"`
	}
	fields := map[string]string{"id": id, "kind": "note", "format": "text/plain", "encoding": "utf8"}
	var placements []placement
	pairs := split(spec)
	if pairs == nil {
		return nil, errors.New("does not begin with a known key")
	}
	for _, kv := range pairs {
		switch key, value := kv[0], kv[1]; key {
		case "placement":
			placements = append(placements, placement{value, "preferred"})
		case "requirement":
			if len(placements) == 0 {
				return nil, errors.New("requirement before any placement")
			}
			placements[len(placements)-1].Requirement = value
		default:
			fields[key] = value
		}
	}
	if len(placements) == 0 {
		placements = []placement{{"receipt_only", "optional"}}
	}

	p := map[string]any{
		"schema_version": 1, "payload_id": fields["id"], "client_id": s.clientID,
		"payload_kind": fields["kind"], "format": fields["format"], "content_encoding": fields["encoding"],
		"body_ref": nil, "acceptable_placements": placements, "expires_at_epoch_s": nil,
		"redaction": "none", "metadata": map[string]any{},
	}
	body, sum := fields["body"], sha256.Sum256([]byte(fields["body"]))
	p["byte_size"] = len(body)
	p["content_digest"] = fmt.Sprintf("sha256:%x", sum)
	p["body"] = body
	if fields["encoding"] == "base64" {
		p["body"] = base64.StdEncoding.EncodeToString([]byte(body))
	}
	if ref, ok := fields["ref"]; ok {
		p["body_ref"] = ref
	}
	if key, ok := fields["key"]; ok {
		p["idempotency_key"] = key
	}
	switch digest := fields["digest"]; digest {
	case "":
	case "none":
		delete(p, "content_digest")
	default:
		p["content_digest"] = digest
	}
	for name, member := range map[string]string{"size": "byte_size", "expires": "expires_at_epoch_s"} {
		value, ok := fields[name]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, err
		}
		p[member] = n
	}
	return p, nil
}

const payloadKeys = " id kind format encoding body ref placement requirement expires key size digest "

// split returns nil if the first piece has no known key.
func split(spec string) (pairs [][2]string) {
	for piece := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(piece, "=")
		if ok && strings.Contains(payloadKeys, " "+key+" ") {
			pairs = append(pairs, [2]string{key, value})
			continue
		}
		if len(pairs) == 0 {
			return nil
		}
		pairs[len(pairs)-1][1] += "," + piece
	}
	return pairs
}

// A list is a flag that can be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// matches reports whether event is in the list; the empty list matches all.
func (l list) matches(event string) bool {
	for _, want := range l {
		prefix, wild := strings.CutSuffix(want, "*")
		if event == want || wild && strings.HasPrefix(event, prefix) {
			return true
		}
	}
	return len(l) == 0
}
