package archtest

import "regexp"

// layers lists our packages, lowest first. A package imports only packages of
// lines above its own, never a neighbour. Some are not built yet; their place
// is decided already.
var layers = [][]string{
	{"canon", "internal/nearest", "internal/vt", "internal/durable", "internal/hook", "telemetry/scan"},
	{"lifeloop", "session", "telemetry", "telemetry/otlplog", "ledger", "internal/document"},
	{"internal/document/yaml", "internal/signaltext", "attempt", "manifests", "negotiate", "gate", "renewal", "synth",
		"telemetry/claude", "telemetry/codex", "telemetry/gemini", "telemetry/opencode", "telemetry/openclaw", "telemetry/hermes"},
	{"profiles", "attempt/policy", "internal/inspect"},
	{"kernel"},
	{"view", "evidence"},
	{"simulate", "dispatch", "vault", "watchers", "watchers/sqlite", "watchers/sse", "harness", "control", "hosts", "otlp", "internal/config", "internal/fakeharness"},
	{"supervisor", "internal/store"},
	{"internal/doctor"},
	{"cmd/lifeloop-wrap", "cmd/lifeloop-hook"},
}

// outside are packages and programs that only tests and developers use. They
// may import what they like; the product imports none of them.
var outside = []string{"internal/archtest", "internal/contracttest", "e2e", "e2e/mock", "bench", "bench/empty", "bench/floor", "bench/walk", "bench/reader",
	"telemetry/telemetrytest", "testdata/fakeharness", "testdata/fakeclient", "testdata/fakeclient/fakeclienttest", "examples/thread-sync", "examples/embed"}

// pure packages have no world: the same arguments give the same results, and
// nothing else happens.
var pure = []string{"canon", "internal/nearest", "internal/vt", "internal/document", "internal/signaltext", "lifeloop", "session", "telemetry", "telemetry/scan", "telemetry/otlplog",
	"telemetry/claude", "telemetry/codex", "telemetry/gemini", "telemetry/opencode", "telemetry/openclaw", "telemetry/hermes", "attempt", "attempt/policy", "manifests", "negotiate", "gate", "renewal",
	"synth", "profiles", "kernel", "view", "evidence", "simulate"}

// pureImports are the packages that a pure one may import besides our own
// pure ones.
var pureImports = words(`bytes cmp crypto/ed25519 crypto/sha256 embed encoding/base64 encoding/binary encoding/hex
	encoding/json errors fmt hash hash/crc32 io iter maps math math/bits path path/filepath
	reflect regexp slices sort strconv strings time unicode unicode/utf16 unicode/utf8`)

// worldly are the functions of those packages that reach into the world.
var worldly = map[string][]string{
	"time": words("Now Since Until Sleep After AfterFunc NewTimer NewTicker Tick Local LoadLocation"),
	"fmt":  words("Print Printf Println Scan Scanf Scanln"),
	// These ask the file system, or for the working directory.
	"path/filepath": words("Abs EvalSymlinks Glob Walk WalkDir"),
}

// libraries says which packages may import which library: a library is
// replaced, or found wanting, at one place. A library that is not listed
// belongs to tests.
var libraries = map[string][]string{
	"github.com/creack/pty":           {"harness"},
	"github.com/rogpeppe/go-internal": {"hosts"},
	"github.com/tailscale/hujson":     {"hosts"},
	"github.com/fsnotify":             {"ledger", "watchers"},
	"github.com/goccy/go-yaml":        {"internal/document/yaml"},
	"github.com/google/uuid":          {"cmd/lifeloop-wrap", "internal/store"},
	"github.com/rs/zerolog":           {"supervisor", "cmd/lifeloop-wrap"},
	"github.com/spf13/cobra":          {"cmd/lifeloop-wrap"},
	"github.com/spf13/pflag":          {"cmd/lifeloop-wrap"},
	"golang.org/x/sys":                {"internal/durable", "internal/hook", "internal/fakeharness", "dispatch", "watchers", "watchers/sqlite", "harness", "control"},
	"golang.org/x/term":               {"harness", "internal/fakeharness", "cmd/lifeloop-wrap"},
	"modernc.org/sqlite":              {"watchers/sqlite"},
}

// forbidden names imports that the layers allow and the design does not: what
// is decided there reaches the loop as a kernel.Turn, and in no other way.
var forbidden = map[string][]string{
	"supervisor": {"session", "attempt", "synth", "negotiate", "renewal", "gate"},
}

// dialects are words of other tongues than our own, as string literals, and
// the packages that translate.
var dialects = []struct {
	name  string
	words []string
	in    []string
}{
	{"HCP", words(`state_changed session_created session_closed checkpoint_created intermediate_result
		task_submit task_accepted task_rejected task_completed task_failed hcp_version`), []string{"view"}},
	{"L0", words(`ABORT_COMPLETED ABORT_REQUESTED ADAPTER_DETECTED ADAPTER_WRAP_END ADAPTER_WRAP_START ATTEMPT_START
		CHECKPOINT_SAVED COMPLETE CONNECTION_DROPPED CONNECTION_RESTORED CONTINUATION_START DRIFT_CHECK_END
		DRIFT_CHECK_RESULT DRIFT_CHECK_SKIPPED DRIFT_CHECK_START FALLBACK_END FALLBACK_MODEL_SELECTED FALLBACK_START
		GUARDRAIL_CALLBACK_END GUARDRAIL_CALLBACK_START GUARDRAIL_PHASE_END GUARDRAIL_PHASE_START GUARDRAIL_RULE_END
		GUARDRAIL_RULE_RESULT GUARDRAIL_RULE_START NETWORK_ERROR NETWORK_RECOVERY RESUME_START RETRY_ATTEMPT RETRY_END
		RETRY_FN_ERROR RETRY_FN_RESULT RETRY_FN_START RETRY_GIVE_UP RETRY_START SESSION_END SESSION_START
		SESSION_SUMMARY STREAM_INIT STREAM_READY STRUCTURED_AUTO_CORRECT_END STRUCTURED_AUTO_CORRECT_START
		STRUCTURED_PARSE_END STRUCTURED_PARSE_ERROR STRUCTURED_PARSE_START STRUCTURED_VALIDATION_END
		STRUCTURED_VALIDATION_ERROR STRUCTURED_VALIDATION_START TIMEOUT_RESET TIMEOUT_START TIMEOUT_TRIGGERED
		TOOL_COMPLETED TOOL_ERROR TOOL_REQUESTED TOOL_RESULT TOOL_START`), []string{"view"}},
	{"Gait", words(`gait.gate.intent_request gait.gate.result gait.gate.trace gait.pack.manifest gait.runpack.manifest
		gait.runpack.session_chain gait.runpack.session_checkpoint gait.runpack.session_journal`), []string{"gate", "evidence"}},
}

// harnesses are the programs we wrap. What differs between them is data or a
// named decoder, and lives in one of these packages.
var (
	harnesses   = words("claude codex gemini opencode openclaw hermes")
	harnessesIn = []string{"manifests", "profiles", "telemetry", "telemetry/claude", "telemetry/codex", "telemetry/gemini", "telemetry/opencode",
		"telemetry/openclaw", "telemetry/hermes", "internal/fakeharness"}
	// Its help texts speak of them to people: sentences, never bare words.
	harnessHelp = "cmd/lifeloop-wrap"
)

// clientWords belong to clients (the contract's ownership boundary); their
// names are in boundary_test.go. A profile may speak the language of the client
// that it serves, and a manifest may cite it.
var (
	clientWords   = regexp.MustCompile(`(?i)\b(continuity|recursive[ _-]+inference)\b`)
	clientWordsIn = []string{"profiles", "manifests"}
)
