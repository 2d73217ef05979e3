package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/evidence/sign"
	"lifeloop/internal/document"
)

const plain = `{"schema_id":"gait.gate.intent_request","schema_version":"1.0.0","created_at":"2026-01-02T03:04:05Z","producer_version":"test",
 "tool_name":"tool.put","args":{},"targets":[{"kind":"path","value":"/srv/w/x","operation":"write"}],
 "context":{"identity":"alice","workspace":"/srv/w","risk_class":"high"}}`

// edited is the plain intent with members replaced, or removed if nil. A name that
// begins with "context." is a member of context.
func edited(t testing.TB, edits map[string]any) []byte {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(plain), &doc))
	for name, v := range edits {
		in := doc
		if rest, ok := bytes.CutPrefix([]byte(name), []byte("context.")); ok {
			in, name = doc["context"].(map[string]any), string(rest)
		}
		if in[name] = v; v == nil {
			delete(in, name)
		}
	}
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	return text
}

func intent(t testing.TB, edits map[string]any) Intent {
	t.Helper()
	in, err := ParseIntent(edited(t, edits))
	require.NoError(t, err)
	return in
}

type object = map[string]any

func targets(list ...object) map[string]any { return map[string]any{"targets": list} }

func TestIntentsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edits      map[string]any
	}{
		{"another schema", "schema_id", object{"schema_id": "gait.gate.intent"}},
		{"another version", "schema_version", object{"schema_version": "2.0.0"}},
		{"no time", "created_at", object{"created_at": nil}},
		{"an invalid time", "yesterday", object{"created_at": "yesterday"}},
		{"no producer", "producer_version", object{"producer_version": " "}},
		{"no tool", "tool_name", object{"tool_name": "  "}},
		{"no arguments", "args is missing", object{"args": nil}},
		{"no targets", "targets is missing", object{"targets": nil}},
		{"no identity", "context.identity", object{"context.identity": " "}},
		{"no workspace", "context.workspace", object{"context.workspace": nil}},
		{"no risk class", "context.risk_class", object{"context.risk_class": ""}},
		{"a script", "script", object{"script": object{"steps": []any{}}}},
		{"another's digest", "args_digest", object{"args_digest": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8b"}},
		{"another intent's digest", "intent_digest", object{"intent_digest": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}},
		{"a name in another case", "the member must be spelled tool_name", object{"Tool_Name": "x"}},
		{"a name in another case below", "context.RUN_ID: the member must be spelled run_id", object{"context.RUN_ID": "x"}},
		{"a name in another case in a list", "targets.Kind: the member must be spelled kind", targets(object{"kind": "path", "Kind": "url", "value": "x"})},
		{"a secret", "args.deep[0].password: this looks like a secret", object{"args": object{"deep": []any{object{"password": "abcdefgh12345678"}}}}},
		{"a token of a known form", "this looks like a secret", object{"args": object{"token": "ghp_x"}}},
		{"a secret in the auth context", "auth_context.api-key", object{"context.auth_context": object{"api-key": "AKIAX"}}},
		{"an empty name", "empty name", object{"args": object{" ": 1}}},
		{"two names that are one", "two member names", object{"args": object{"a": 1, " a": 2}}},
		{"a target without value", "kind and value", targets(object{"kind": "path", "value": " "})},
		{"an unknown kind", "kind is", targets(object{"kind": "file", "value": "x"})},
		{"an unknown class", "endpoint_class", targets(object{"kind": "path", "value": "x", "endpoint_class": "fs"})},
		{"an unknown discovery", "discovery_method", targets(object{"kind": "path", "value": "x", "discovery_method": "luck"})},
		{"an unknown source", "source is", object{"arg_provenance": []any{object{"arg_path": "$.a", "source": "rumour"}}}},
		{"a source without a path", "arg_path and source", object{"arg_provenance": []any{object{"source": "user"}}}},
		{"an invalid digest", "integrity_digest", object{"arg_provenance": []any{object{"arg_path": "$.a", "source": "user", "integrity_digest": "x"}}}},
		{"an incomplete skill", "skill_provenance", object{"skill_provenance": object{"skill_name": "s"}}},
		{"a delegation without requester", "requester_identity", object{"delegation": object{}}},
		{"a broken chain", "differs from the previous delegate", object{"delegation": object{"requester_identity": "c", "chain": []any{
			object{"delegator_identity": "a", "delegate_identity": "b"}, object{"delegator_identity": "x", "delegate_identity": "c"}}}}},
		{"a chain to another", "last delegate", object{"delegation": object{"requester_identity": "c", "chain": []any{object{"delegator_identity": "a", "delegate_identity": "b"}}}}},
		{"an expiry before the start", "expires_at must be after issued_at", object{"delegation": object{"requester_identity": "c", "issued_at": "2026-01-02T00:00:00Z", "expires_at": "2026-01-01T00:00:00Z"}}},
		{"an unknown phase", "phase", object{"context.phase": "later"}},
		{"an unknown credential source", "credential_source", object{"context.credential_source": "pocket"}},
		{"an unknown sandbox mode", "network_mode", object{"context.sandbox": object{"network_mode": "some"}}},
		{"a variable in the sandbox", "contains an assignment", object{"context.sandbox": object{"writable_paths": []any{"TOKEN=x"}}}},
		{"a negative time limit", "timeout_seconds", object{"context.sandbox": object{"timeout_seconds": -1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseIntent(edited(t, c.edits))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := ParseIntent([]byte(`{"tool_name":"a","tool_name":"b"}`))
	require.ErrorContains(t, err, "not JSON", "a member that is written twice")
	_, err = ParseIntent([]byte(`[]`))
	require.ErrorContains(t, err, "not an IntentRequest")
}

func TestInference(t *testing.T) {
	for _, c := range []struct {
		tool, kind, value, operation string
		class, domain                string
		destructive                  bool
	}{
		{"tool.x", "path", "/a", "cat", "fs.read", "", false},
		{"tool.x", "path", "/a", "rename", "fs.write", "", false},
		{"tool.x", "path", "/a", "unlink", "fs.delete", "", true},
		{"a/file.search", "path", "/a", "", "fs.read", "", false},
		{"tool.save", "path", "/a", "", "fs.write", "", false},
		{"tool.drop", "path", "/a", "", "fs.delete", "", true},
		{"tool.x", "path", "/a", "", "other", "", false},
		{"tool.x", "host", "https://H.example:1/p", "", "net.http", "h.example", false},
		{"tool.x", "host", "h", "lookup", "net.dns", "h", false},
		{"tool.x", "url", "http://u@H.example:1/p", "get", "net.http", "h.example", false},
		{"tool.x", "url", "http://[::1", "get", "net.http", "", false},
		{"tool.shell", "other", "x", "", "proc.exec", "", true},
		{"tool.x", "other", "x", "exec", "proc.exec", "", true},
		{"tool.x", "other", "x", "truncate", "other", "", true},
		{"tool.run", "table", "x", "", "other", "", false},
	} {
		in := intent(t, object{"tool_name": c.tool, "targets": []object{{"kind": c.kind, "value": c.value, "operation": c.operation}}})
		got := in.Targets[0]
		require.Equal(t, []any{c.class, c.domain, c.destructive}, []any{got.EndpointClass, got.EndpointDomain, got.Destructive}, "%+v", c)
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown key", "default_verdict: block\nbogus_key: 1\n", `unknown key "bogus_key"`},
		{"a key of an old draft", "boundaries: []\n", "unknown key"},
		{"a key that is not supported", "scripts: {max_steps: 1}\n", "not supported"},
		{"a rule key that is not supported", "rules: [{name: a, effect: allow, min_approvals: 2}]\n", "rules[0].min_approvals: this key of the policy format is not supported"},
		{"a match key that is not supported", "rules: [{name: a, effect: allow, match: {require_delegation: true}}]\n", "rules[0].match.require_delegation"},
		{"a fail-closed key that is not supported", "fail_closed: {required_high_risk_fields: [targets]}\n", "not supported"},
		{"another schema", "schema_id: x\n", "schema x"},
		{"an invalid verdict", "default_verdict: maybe\n", "default_verdict"},
		{"two verdicts", "default_verdict: block\ndefault_action: allow\n", "differ"},
		{"a rule without name", "rules: [{effect: allow}]\n", "rules[0]: name"},
		{"a rule without effect", "rules: [{name: a}]\n", "effect is required"},
		{"an invalid effect", "rules: [{name: a, effect: permit}]\n", "effect (or action) is"},
		{"effect and action", "rules: [{name: a, effect: allow, action: block}]\n", "differ"},
		{"an invalid priority", "rules: [{name: a, effect: allow, priority: high}]\n", "priority"},
		{"an invalid class", "rules: [{name: a, effect: allow, match: {endpoint_class: [fs]}}]\n", "endpoint_classes"},
		{"an invalid field", "fail_closed: {enabled: true, required_fields: [luck]}\n", "required_fields"},
		{"a limit's window", "rules: [{name: a, effect: allow, rate_limit: {requests: 1, window: day}}]\n", "rate_limit.window"},
		{"an action that allows", "rules: [{name: a, effect: allow, endpoint: {path_denylist: [/x], action: allow}}]\n", "endpoint.action"},
		{"a dataflow that allows", "rules: [{name: a, effect: allow, dataflow: {enabled: true, action: allow}}]\n", "dataflow.action"},
		{"a class that is not egress", "rules: [{name: a, effect: allow, endpoint: {egress_classes: [fs.read]}}]\n", "egress_classes"},
		{"a sandbox mode", "rules: [{name: a, effect: allow, sandbox: {allowed_user_modes: [me]}}]\n", "allowed_user_modes"},
		{"a text for a list", "rules: [{name: a, effect: allow, reason_codes: x}]\n", "expected a list"},
		{"nothing", "", "expected a mapping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parsePolicy([]byte(c.text))
			require.ErrorContains(t, err, c.want)
			var fault *document.Error
			require.True(t, errors.As(err, &fault), "%v", err)
		})
	}
}

func TestPolicyDigest(t *testing.T) {
	a := mustPolicy(t, "# one\nrules:\n  - {name: b, effect: allow}\n  - {name: a, effect: BLOCK, priority: -1, reason_codes: [y, x, x]}\n")
	b := mustPolicy(t, "schema_version: 1.0.0\ndefault_action: require_approval\nrules:\n  - {name: ' a ', reason_codes: [x, y], priority: -1, action: block}\n  - {effect: allow, name: b, match: {}}\n")
	require.Equal(t, a.Digest(), b.Digest())
	require.NotEqual(t, a.Digest(), mustPolicy(t, "rules: [{name: b, effect: allow}]").Digest())
	// In JSON, an empty list of paths is null. Any other empty list is [].
	c := mustPolicy(t, "rules: [{name: a, effect: allow, sandbox: {enabled: true}}]")
	doc, err := json.Marshal(c.Rules[0].Sandbox)
	require.NoError(t, err)
	require.Contains(t, string(doc), `"AllowedWritablePathPrefixes":null`)
	require.Contains(t, string(doc), `"AllowedUserModes":[]`)
}

func TestDecisions(t *testing.T) {
	sandbox := object{"network_mode": "disabled", "env_exposure_mode": "none", "timeout_seconds": 5, "filesystem_isolation": "container",
		"user_mode": "default", "evidence_ref": "sandbox:1", "evidence_digest": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "writable_paths": []any{"/srv/w"}}
	spawn := []object{{"kind": "other", "value": "x", "operation": "spawn"}}
	tainted := []any{object{"arg_path": "$.a", "source": "external"}}
	const contained = "rules: [{name: a, effect: allow, reason_codes: [ok], sandbox: {allowed_network_modes: [disabled], max_timeout_seconds: 10, allowed_writable_path_prefixes: [/srv], required_read_only_roots: [/usr]}}]"
	for _, c := range []struct {
		name, policy string
		edits        map[string]any
		verdict      Verdict
		reasons      []string
		rule         string
	}{
		{"the default is to ask", "rules: []", nil, RequireApproval, []string{"approval_token_missing", "default_require_approval"}, ""},
		{"the first tier that matches decides", "rules: [{name: a, priority: 2, effect: block}, {name: b, priority: 1, effect: allow}]", nil, Allow, []string{"matched_rule_b"}, "b"},
		{"within a tier the strictest wins", "rules: [{name: a, effect: allow, reason_codes: [x]}, {name: c, effect: dry_run, reason_codes: [z]}, {name: b, effect: dry_run, reason_codes: [y]}]", nil, DryRun, []string{"y", "z"}, "b"},
		{"fail closed: no targets", "fail_closed: {enabled: true, required_fields: [targets, arg_provenance, delegation, context_evidence]}\ndefault_verdict: allow", object{"targets": []any{}}, Block, []string{"context_evidence_missing", "fail_closed_missing_arg_provenance", "fail_closed_missing_delegation", "fail_closed_missing_targets"}, ""},
		{"fail closed: an unknown class", "fail_closed: {enabled: true}\ndefault_verdict: allow", targets(object{"kind": "table", "value": "x"}), Block, []string{"fail_closed_endpoint_class_unknown"}, ""},
		{"fail closed: another risk class", "fail_closed: {enabled: true, risk_classes: [critical]}\ndefault_verdict: allow", targets(object{"kind": "table", "value": "x"}), Allow, []string{"default_allow"}, ""},
		{"a destructive act is never simply allowed", "rules: [{name: a, effect: allow}]", targets(object{"kind": "path", "value": "x", "operation": "rm"}), RequireApproval, []string{"approval_token_missing", "destructive_apply_requires_approval", "matched_rule_a"}, "a"},
		{"a destructive act of a plan is tried only", "rules: [{name: a, effect: allow}]", object{"context.phase": "plan", "targets": spawn}, DryRun, []string{"matched_rule_a", "plan_phase_non_destructive"}, "a"},
		{"the default is not overridden", "default_verdict: allow", object{"targets": spawn}, Allow, []string{"default_allow"}, ""},
		{"a valid sandbox permits a process", "rules: [{name: a, effect: allow, reason_codes: [ok], sandbox: {enabled: true}}]", object{"targets": spawn, "context.sandbox": sandbox}, Allow, []string{"ok"}, "a"},
		{"but not a process and a deletion", "rules: [{name: a, effect: allow, reason_codes: [ok], sandbox: {enabled: true}}]", object{"targets": append([]object{{"kind": "path", "value": "/x", "operation": "rm"}}, spawn...), "context.sandbox": sandbox}, RequireApproval, []string{"approval_token_missing", "destructive_apply_requires_approval", "ok"}, "a"},
		{"no sandbox", contained, object{"targets": spawn}, Block, []string{"destructive_apply_requires_approval", "ok", "sandbox_metadata_missing"}, "a"},
		{"a sandbox without its read-only root", contained, object{"targets": spawn, "context.sandbox": sandbox}, Block, []string{"destructive_apply_requires_approval", "ok", "sandbox_read_only_root_missing"}, "a"},
		{"an empty sandbox is none", contained, object{"context.sandbox": object{"user_mode": " "}}, Block, []string{"ok", "sandbox_metadata_missing"}, "a"},
		{"a sandbox that lacks everything", contained, object{"context.sandbox": object{"timeout_seconds": 11, "network_mode": "full", "writable_paths": []any{"/etc"}}}, Block,
			[]string{"ok", "sandbox_env_exposure_mode_missing", "sandbox_evidence_missing", "sandbox_filesystem_isolation_missing", "sandbox_network_mode_disallowed",
				"sandbox_read_only_root_missing", "sandbox_timeout_exceeded", "sandbox_user_mode_missing", "sandbox_writable_path_disallowed"}, "a"},
		{"a denied path", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {path_denylist: [/srv/w/**], reason_code: no}}]", nil, Block, []string{"endpoint_path_denied", "no", "ok"}, "a"},
		{"a path that leaves the allowed folder", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {path_allowlist: [/srv/w/**]}}]", targets(object{"kind": "path", "value": "/srv/w/../../etc/x", "operation": "write"}), Block, []string{"endpoint_constraint_violation", "endpoint_path_not_allowlisted", "ok"}, "a"},
		{"a denied path by way of another folder", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {path_denylist: [/etc/**]}}]", targets(object{"kind": "path", "value": "/srv/../etc/x", "operation": "read"}), Block, []string{"endpoint_constraint_violation", "endpoint_path_denied", "ok"}, "a"},
		{"an allowed path", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {path_allowlist: [/srv/w/*]}}]", nil, Allow, []string{"ok"}, "a"},
		{"a denied domain below", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {domain_denylist: ['*.evil.example'], action: require_approval}}]", targets(object{"kind": "url", "value": "https://a.b.evil.example/"}), RequireApproval, []string{"approval_token_missing", "endpoint_constraint_violation", "endpoint_domain_denied", "ok"}, "a"},
		{"a wild domain is not the domain itself", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {domain_denylist: ['*.evil.example']}}]", targets(object{"kind": "url", "value": "https://notevil.example/"}), Allow, []string{"ok"}, "a"},
		{"a denied domain with the dot of the root", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {domain_denylist: [evil.example]}}]", targets(object{"kind": "url", "value": "https://evil.example./"}), Block, []string{"endpoint_constraint_violation", "endpoint_domain_denied", "ok"}, "a"},
		{"a domain that is not allowed", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {domain_allowlist: [good.example], egress_classes: [net.dns]}}]", targets(object{"kind": "url", "value": "https://evil.example/"}), Block, []string{"endpoint_constraint_violation", "endpoint_domain_not_allowlisted", "endpoint_egress_class_not_allowed", "ok"}, "a"},
		{"a destructive endpoint", "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {destructive_action: require_approval, action: require_approval}}]", targets(object{"kind": "path", "value": "x", "operation": "rm"}), RequireApproval, []string{"approval_token_missing", "destructive_apply_requires_approval", "endpoint_constraint_violation", "endpoint_destructive_operation", "ok"}, "a"},
		{"a tainted argument that leaves", "rules: [{name: a, effect: allow, reason_codes: [ok], dataflow: {enabled: true, action: block}}]", object{"arg_provenance": tainted, "targets": []object{{"kind": "url", "value": "https://x.example"}}}, Block, []string{"dataflow_tainted_destination", "ok"}, "a"},
		{"a tainted argument that stays", "rules: [{name: a, effect: allow, reason_codes: [ok], dataflow: {enabled: true}}]", object{"arg_provenance": tainted}, Allow, []string{"ok"}, "a"},
		{"a tainted argument cannot soften a block", "rules: [{name: a, effect: block, reason_codes: [ok], dataflow: {destination_kinds: [path]}}]", object{"arg_provenance": tainted}, Block, []string{"dataflow_tainted_destination", "ok"}, "a"},
		{"nothing matches", "default_verdict: block\nrules: [{name: a, effect: allow, match: {tool_name: other}}, {name: b, effect: allow, match: {workspace_prefixes: [/other]}}, {name: c, effect: allow, match: {provenance_sources: [user]}}, {name: d, effect: allow, match: {destination_operations: [read]}}]", nil, Block, []string{"default_block"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := mustPolicy(t, c.policy).Decide(intent(t, c.edits), "test")
			require.Equal(t, []any{c.verdict, c.reasons, c.rule}, []any{d.Result.Verdict, d.Result.ReasonCodes, d.MatchedRule})
			require.NotNil(t, d.Result.Violations)
			require.Len(t, d.TraceID, 24)
		})
	}
}

// TestAddressesWithoutDomain: if no domain is found in an address, a list of domains does not
// allow it.
func TestAddressesWithoutDomain(t *testing.T) {
	for _, list := range []string{"domain_allowlist: [good.example]", "domain_denylist: [evil.example]"} {
		p := mustPolicy(t, "rules: [{name: a, effect: allow, reason_codes: [ok], endpoint: {"+list+"}}]")
		for _, value := range []string{"https://evil.example/%zz", "https://evil.example:99999999x/", "https:evil.example", "evil.example/x", "https://good.example\\@evil.example/"} {
			d := p.Decide(intent(t, targets(object{"kind": "url", "value": value})), "test")
			require.Equal(t, Block, d.Result.Verdict, value)
			require.Contains(t, d.Result.ReasonCodes, "endpoint_domain_not_allowlisted")
		}
		require.Equal(t, Allow, p.Decide(intent(t, targets(object{"kind": "url", "value": "https://good.example/"})), "test").Result.Verdict)
		require.Equal(t, Allow, p.Decide(intent(t, targets(object{"kind": "path", "value": "/x", "operation": "read"})), "test").Result.Verdict)
	}
}

func TestRateLimit(t *testing.T) {
	p := mustPolicy(t, "rules: [{name: a, effect: allow, rate_limit: {requests: 2, window: minute, scope: tool}}]")
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	var l Limiter
	in, other := intent(t, nil), intent(t, object{"tool_name": "tool.other"})
	ask := func(in Intent, at time.Time) Verdict { return l.Apply(p, p.Decide(in, "test"), in, at).Result.Verdict }
	require.Equal(t, Allow, ask(in, at))
	require.Equal(t, Allow, ask(in, at.Add(59*time.Second)))
	require.Equal(t, Block, ask(in, at.Add(59*time.Second)))
	require.Equal(t, Allow, ask(other, at), "each tool has its own count")
	require.Equal(t, Allow, ask(in, at.Add(time.Minute)), "the next minute begins anew")
	d := l.Apply(p, p.Decide(in, "test"), in, at)
	require.Equal(t, []string{"matched_rule_a", "rate_limit_exceeded"}, d.Result.ReasonCodes)
	require.Equal(t, TraceID(p.Digest(), in.IntentDigest, Block), d.TraceID)
	require.Equal(t, Allow, ask(in, at.Add(5*time.Hour)))
	require.Len(t, l.used, 1, "windows that are over are forgotten")
}

// written is a value as JSON, with the members of objects in any order and with blanks.
func written(t *rapid.T, v any) string {
	blank := func() string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "blank") }
	list := func(parts []string) string { return blank() + strings.Join(parts, blank()+","+blank()) + blank() }
	parts := []string{}
	switch v := v.(type) {
	case object:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, written(t, name)+blank()+":"+blank()+written(t, v[name]))
		}
		return "{" + list(rapid.Permutation(parts).Draw(t, "member order")) + "}"
	case []object:
		for _, value := range v {
			parts = append(parts, written(t, value))
		}
		return "[" + list(parts) + "]"
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// The digests and the decision depend neither on the order of members, targets and rules,
// nor on blanks or repeated targets. A second decision about an intent equals the first.
func TestLawDecisionsAreDeterministic(t *testing.T) {
	verdicts := rapid.SampledFrom([]string{"allow", "block", "dry_run", "require_approval"})
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.Custom(func(t *rapid.T) object {
			return object{"kind": rapid.SampledFrom([]string{"path", "url", "other", " HOST "}).Draw(t, "kind"), "value": rapid.SampledFrom([]string{"/a", "b", " c "}).Draw(t, "value"),
				"operation": rapid.SampledFrom([]string{"", "read", "RM", "exec"}).Draw(t, "operation")}
		})
		list := rapid.SliceOfN(target, 0, 4).Draw(t, "targets")
		turned := rapid.Permutation(append(append([]object{}, list...), list...)).Draw(t, "other order")
		rules := []object{}
		for i := range rapid.IntRange(0, 4).Draw(t, "rules") {
			rules = append(rules, object{"name": string(rune('a' + i)), "effect": verdicts.Draw(t, "effect"), "match": object{"target_kinds": []string{rapid.SampledFrom([]string{"path", "url"}).Draw(t, "match")}}})
		}
		policy := func(rules []object) *Policy {
			doc, err := document.ParseJSON([]byte(written(t, object{"rules": rules})))
			if err != nil {
				t.Fatal(err)
			}
			p, err := DecodePolicy(doc)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		p, q := policy(rules), policy(rapid.Permutation(rules).Draw(t, "rule order"))
		read := func(targets []object) Intent {
			var doc object
			_ = json.Unmarshal([]byte(plain), &doc)
			doc["targets"], doc["args"] = targets, object{"a": 1, "b": object{"c": "x", "d": nil}}
			in, err := ParseIntent([]byte(written(t, doc)))
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		a, b := read(list), read(turned)
		if a.IntentDigest != b.IntentDigest || p.Digest() != q.Digest() {
			t.Fatal("the order changes a digest")
		}
		x, _ := json.Marshal(p.Decide(a, "test"))
		y, _ := json.Marshal(q.Decide(b, "test"))
		again, _ := json.Marshal(p.Decide(a, "test"))
		if !bytes.Equal(x, y) || !bytes.Equal(x, again) {
			t.Fatalf("%s\n%s\n%s", x, y, again)
		}
	})
}

// No input makes the parser panic, and what it accepts has a verdict.
func FuzzParseIntent(f *testing.F) {
	f.Add([]byte(plain))
	for _, name := range []string{"normalize_me", "delegated_times", "launch_sandboxed"} {
		f.Add(read(f, "intent/"+name+".json"))
	}
	p := mustPolicy(f, string(read(f, "policy/match_many.yaml")))
	f.Fuzz(func(t *testing.T, doc []byte) {
		in, err := ParseIntent(doc)
		if err != nil {
			return
		}
		if d := p.Decide(in, "fuzz"); !d.Result.Verdict.Valid() {
			t.Fatalf("%q has the verdict %q", doc, d.Result.Verdict)
		}
	})
}

// A trace describes the intent's delegation as a trace of the public reference does. The
// chain digest covers the normal form of the whole delegation, where an absent time is in
// the year 1.
func TestTraceCarriesTheDelegation(t *testing.T) {
	in := intent(t, object{"delegation": object{"requester_identity": " bob ", "scope_class": "W", "token_refs": []string{"t2", "t1"},
		"chain": []object{{"delegator_identity": "alice", "delegate_identity": "bob"}}}})
	p := mustPolicy(t, "default_verdict: allow")
	trace := p.Decide(in, "test").Trace(in, in.CreatedAt)
	never := `"0001-01-01T00:00:00Z"`
	require.Equal(t, &DelegationRef{DelegationTokenRef: "t1", RequesterIdentity: "bob", DelegationDepth: 1, ScopeClass: "w", ChainDigest: sign.Sum([]byte(
		`{"chain":[{"delegate_identity":"bob","delegator_identity":"alice","expires_at":` + never + `,"issued_at":` + never + `}],"expires_at":` + never +
			`,"issued_at":` + never + `,"requester_identity":"bob","scope_class":"w","token_refs":["t1","t2"]}`))}, trace.DelegationRef)
	alone := intent(t, object{"delegation": object{"requester_identity": "bob"}})
	require.Zero(t, p.Decide(alone, "test").Trace(alone, in.CreatedAt).DelegationRef.DelegationTokenRef)
	require.Nil(t, p.Decide(intent(t, nil), "test").Trace(intent(t, nil), in.CreatedAt).DelegationRef)
}

func TestTraceCarriesTheSkill(t *testing.T) {
	in := intent(t, object{"skill_provenance": object{"skill_name": " s ", "source": "Registry", "publisher": "p"}})
	trace := mustPolicy(t, "default_verdict: allow").Decide(in, "test").Trace(in, in.CreatedAt)
	require.Equal(t, &Skill{SkillName: "s", Source: "registry", Publisher: "p"}, trace.SkillProvenance)
}
