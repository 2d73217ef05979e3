package archtest

import (
	_ "embed"
	"regexp"
	"strings"
)

// layers lists our packages, lowest first. A package imports only packages of
// lower layers, and none of its own layer. Some packages do not exist yet; their
// layer is reserved.
var layers = [][]string{
	{"canon", "internal/nearest", "internal/vt", "internal/durable", "internal/hook", "internal/minimum", "telemetry/scan"},
	{"lifeloop", "session", "telemetry", "telemetry/otlplog", "ledger", "internal/document", "internal/trust", "internal/proven", "evidence/sign"},
	{"lifeloop/lifelooptest", "internal/document/yaml", "internal/environ", "attempt", "manifests", "negotiate", "gate", "gate/starter", "evidence/redact", "renewal", "synth",
		"telemetry/claude", "telemetry/codex", "telemetry/gemini", "telemetry/opencode", "telemetry/openclaw", "telemetry/hermes"},
	{"profiles", "attempt/policy", "renewal/profile", "internal/inspect", "gate/acts", "kernel/setup", "kernel/effect"},
	{"kernel/input"},
	{"kernel"},
	{"view", "evidence"},
	{"evidence/page", "simulate", "dispatch", "vault", "watchers", "watchers/sqlite", "watchers/sse", "harness", "control", "hosts", "otlp", "instructions", "internal/config", "internal/fakeharness", "internal/mock", "internal/overlay"},
	{"supervisor", "renewal/programs", "internal/store", "internal/quick"},
	{"renewal/unwrapped", "evidence/anchoring", "internal/doctor", "internal/conformance", "internal/probe"},
	{"cmd/lifeloop-wrap", "cmd/lifeloop-hook"},
}

// outside are packages and programs that only tests and developers use. They may
// import any package, and no other package may import them.
var outside = []string{"internal/archtest", "internal/contracttest", "e2e", "bench", "bench/empty", "bench/floor", "bench/walk", "bench/reader", "bench/soak",
	"telemetry/telemetrytest", "internal/store/storetest", "testdata/fakeharness", "testdata/fakeclient", "testdata/fakeclient/fakeclienttest", "examples/thread-sync", "examples/embed"}

// pure packages have no side effects: the same arguments give the same results.
// The list is a file because scripts/test.sh reads it too.
//
//go:embed pure.txt
var pureText string

var pure = strings.Fields(pureText)

// pureImports are the standard packages that a pure package may import.
var pureImports = words(`archive/zip bytes cmp compress/flate crypto/ed25519 crypto/sha1 crypto/sha256 embed encoding/base64 encoding/binary encoding/hex
	encoding/json errors fmt hash hash/crc32 io iter maps math math/bits net/url path path/filepath
	reflect regexp slices sort strconv strings time unicode unicode/utf16 unicode/utf8
	github.com/tailscale/hujson google.golang.org/protobuf/encoding/protowire mvdan.cc/sh/v3/syntax`)

// worldly lists the functions of the packages in pureImports that have side
// effects or read the environment.
var worldly = map[string][]string{
	"time": words("Now Since Until Sleep After AfterFunc NewTimer NewTicker Tick Local LoadLocation"),
	"fmt":  words("Print Printf Println Scan Scanf Scanln"),
	// These functions use the file system or the working directory.
	"archive/zip":   words("OpenReader"),
	"path/filepath": words("Abs EvalSymlinks Glob Walk WalkDir"),
}

// libraries lists the packages that may import each library, so that it can be
// replaced in one place. Only tests and the packages in outside may import a library
// that is not listed.
var libraries = map[string][]string{
	"github.com/creack/pty":                         {"harness"},
	"github.com/pelletier/go-toml":                  {"hosts"},
	"github.com/rogpeppe/go-internal":               {"hosts"},
	"github.com/tailscale/hujson":                   {"hosts", "profiles"},
	"github.com/fsnotify":                           {"ledger", "watchers"},
	"github.com/goccy/go-yaml":                      {"internal/document/yaml"},
	"github.com/google/uuid":                        {"cmd/lifeloop-wrap", "internal/store", "internal/fakeharness"},
	"github.com/rs/zerolog":                         {"supervisor", "cmd/lifeloop-wrap"},
	"github.com/spf13/cobra":                        {"cmd/lifeloop-wrap"},
	"github.com/spf13/pflag":                        {"cmd/lifeloop-wrap"},
	"golang.org/x/sys":                              {"internal/durable", "internal/hook", "internal/fakeharness", "dispatch", "watchers", "watchers/sqlite", "harness", "control"},
	"golang.org/x/term":                             {"cmd/lifeloop-wrap", "internal/fakeharness"},
	"google.golang.org/protobuf/encoding/protowire": {"telemetry/otlplog"},
	"github.com/santhosh-tekuri/jsonschema":         {"lifeloop/lifelooptest"},
	"mvdan.cc/sh/v3":                                {"gate/acts"},
	"modernc.org/sqlite":                            {"watchers/sqlite"},
}

// costly are packages of the standard library that call methods by name. If a program
// uses one, the linker keeps every exported method of every package.
var costly = []string{"html/template", "text/template"}

// forbidden lists imports that the layers would allow: importer → imported packages.
// The decisions of the imported packages must reach the supervisor as a kernel.Output.
var forbidden = map[string][]string{
	"supervisor": {"session", "attempt", "synth", "negotiate", "renewal", "gate"},
}

// dialects lists the words of other protocols, as string literals, and the
// packages that may contain them because they translate them.
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

// harnesses are the wrapped programs. Everything specific to one of them is in the
// packages of harnessesIn, as data or as a named decoder.
var (
	harnesses   = words("claude codex gemini opencode openclaw hermes")
	harnessesIn = []string{"manifests", "profiles", "telemetry", "telemetry/claude", "telemetry/codex", "telemetry/gemini", "telemetry/opencode",
		"telemetry/openclaw", "telemetry/hermes", "internal/fakeharness"}
	// A string of this package may name a harness inside a sentence, as help texts do. A
	// string that is only the name of a harness is not allowed.
	harnessHelp = "cmd/lifeloop-wrap"
)

// clientWords belong to clients (the contract's ownership boundary); the names of
// clients are in boundary_test.go. A profile may use the words of the client that
// it serves, and a manifest may quote them.
var (
	clientWords   = regexp.MustCompile(`(?i)\b(continuity|recursive[ _-]+inference)\b`)
	clientWordsIn = []string{"profiles", "manifests"}
)
