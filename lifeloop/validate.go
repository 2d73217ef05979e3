package lifeloop

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxIDBytes is the largest identifier the wire carries (DECISIONS L12).
const maxIDBytes = 256

// ---- checks that several documents share

func validate(check func(*list, path)) error {
	var l list
	check(&l, "")
	return l.err()
}

// An enum is a word of a closed set.
type enum[E any] interface {
	~string
	all() []E
}

func oneOf[E enum[E]](l *list, at path, v E) {
	if slices.Contains(v.all(), v) {
		return
	}
	var words []string
	for _, e := range v.all() {
		words = append(words, string(e))
	}
	l.add(at, "expected one of %s, got %s", strings.Join(words, ", "), show(string(v)))
}

func (l *list) version(at path, v string) {
	if v != Version && v != VersionV01 {
		l.add(at, "expected %s or %s, got %s", Version, VersionV01, show(v))
	}
}

// id checks an identifier: "non-empty strings of at most 256 bytes without
// control characters".
func (l *list) id(at path, s string) {
	switch {
	case s == "":
		l.add(at, "expected a non-empty string")
	case len(s) > maxIDBytes:
		l.add(at, "expected at most %d bytes, got %d", maxIDBytes, len(s))
	case !utf8.ValidString(s):
		l.add(at, "expected valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		l.add(at, "expected no control characters")
	}
}

func (l *list) optionalID(at path, s *string) {
	if s != nil {
		l.id(at, *s)
	}
}

func (l *list) notNegative(at path, n int64) {
	if n < 0 {
		l.add(at, "expected a non-negative integer, got %d", n)
	}
}

func (l *list) digest(at path, s *string) (sum []byte) {
	if s == nil {
		return nil
	}
	digits, tagged := strings.CutPrefix(*s, "sha256:")
	sum, err := hex.DecodeString(digits)
	if !tagged || err != nil || len(sum) != sha256.Size {
		l.add(at, "expected sha256: and 64 hex digits, got %s", show(*s))
		return nil
	}
	return sum
}

// retry checks a retry class against the failure class it belongs to: it may
// be tighter than the default, never looser.
func (l *list) retry(at path, retry *RetryClass, failure *FailureClass) {
	if retry == nil {
		return
	}
	oneOf(l, at, *retry)
	if failure == nil || !failure.Valid() || !retry.Valid() {
		return
	}
	if least := failure.DefaultRetry(); least.Tighter(*retry) {
		l.add(at, "expected %s or tighter for %s, got %s", least, *failure, *retry)
	}
}

// evidence rejects text that looks like a secret: evidence "must not contain
// client-owned continuation tokens". A token cannot be recognized for certain,
// so this looks for a run of letters and digits that is too long for a word.
func (l *list) evidence(at path, s string) {
	const longestWord = 31
	isToken := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-+=", r)
	}
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return !isToken(r) }) {
		if len(run) > longestWord && strings.ContainsAny(run, "0123456789") {
			l.add(at, "expected words; a run of %d letters and digits may be a token, which evidence must not carry", len(run))
			return
		}
	}
}

// ---- callbacks

// Validate checks the request by DECISIONS L12 and the rules for nested frames.
// Both contract versions are accepted (L1).
func (r CallbackRequest) Validate() error { return validate(r.check) }

func (r CallbackRequest) check(l *list, at path) {
	l.version(at.member("schema_version"), r.SchemaVersion)
	oneOf(l, at.member("event"), r.Event)
	l.id(at.member("event_id"), r.EventID)
	l.id(at.member("adapter_id"), r.AdapterID)
	l.id(at.member("adapter_version"), r.AdapterVersion)
	oneOf(l, at.member("integration_mode"), r.IntegrationMode)
	l.id(at.member("invocation_id"), r.InvocationID)
	l.optionalID(at.member("harness_session_id"), r.HarnessSessionID)
	l.optionalID(at.member("harness_run_id"), r.HarnessRunID)
	l.optionalID(at.member("harness_task_id"), r.HarnessTaskID)
	l.optionalID(at.member("capability_snapshot_ref"), r.CapabilitySnapshotRef)
	l.optionalID(at.member("idempotency_key"), r.IdempotencyKey)
	if r.Sequence != nil {
		l.notNegative(at.member("sequence"), *r.Sequence)
	}
	if r.FrameContext != nil {
		r.FrameContext.check(l, at.member("frame_context"))
	} else if r.Event.Frame() {
		l.add(at.member("frame_context"), "expected a frame context, because the event is %s", show(string(r.Event)))
	}
	for i, ref := range r.PayloadRefs {
		at := at.member("payload_refs").index(i)
		l.id(at.member("payload_id"), ref.PayloadID)
		l.id(at.member("payload_kind"), ref.PayloadKind)
		l.digest(at.member("content_digest"), ref.ContentDigest)
		if ref.ByteSize != nil {
			l.notNegative(at.member("byte_size"), *ref.ByteSize)
		}
	}
}

// Validate checks the answer to a request of the given version (DECISIONS L11).
// With an empty requestVersion, any version of the contract is accepted.
func (r CallbackResponse) Validate(requestVersion string) error {
	var l list
	r.check(&l, "", requestVersion)
	return l.err()
}

func (r CallbackResponse) check(l *list, at path, requestVersion string) {
	switch {
	case r.SchemaVersion == "":
	case requestVersion == "":
		l.version(at.member("schema_version"), r.SchemaVersion)
	case r.SchemaVersion != requestVersion:
		l.add(at.member("schema_version"), "expected the request's version %s, got %s", requestVersion, show(r.SchemaVersion))
	}
	oneOf(l, at.member("status"), r.Status)
	for i, p := range r.ClientPayloads {
		p.check(l, at.member("client_payloads").index(i))
	}
	for i, id := range r.ReceiptRefs {
		l.id(at.member("receipt_refs").index(i), id)
	}
	class := at.member("failure_class")
	switch {
	case r.Status == Failed && r.FailureClass == nil:
		l.add(class, "expected a failure class, because the status is failed")
	case r.Status != Failed && r.FailureClass != nil:
		l.add(class, "expected null or nothing, because the status is not failed")
	case r.FailureClass != nil:
		oneOf(l, class, *r.FailureClass)
	}
	l.retry(at.member("retry_class"), r.RetryClass, r.FailureClass)
}

// Retry is the response's retry class, or the default of its failure class when
// it names none. It is empty if there is neither.
func (r CallbackResponse) Retry() RetryClass {
	switch {
	case r.RetryClass != nil:
		return *r.RetryClass
	case r.FailureClass != nil:
		return r.FailureClass.DefaultRetry()
	default:
		return ""
	}
}

// Validate checks the envelope, its request and its payloads. That
// request.payload_refs and payloads name the same payloads "is intentionally
// not enforced at the transport boundary".
func (d DispatchEnvelope) Validate() error { return validate(d.check) }

func (d DispatchEnvelope) check(l *list, at path) {
	l.version(at.member("schema_version"), d.SchemaVersion)
	d.Request.check(l, at.member("request"))
	for i, p := range d.Payloads {
		p.check(l, at.member("payloads").index(i))
	}
}

// ---- frames

// Validate checks the frame rules: a subcall has a parent, a top-level frame
// has none, and no frame is its own parent.
func (f FrameContext) Validate() error { return validate(f.check) }

func (f FrameContext) check(l *list, at path) {
	parent := at.member("parent_frame_id")
	l.id(at.member("frame_id"), f.FrameID)
	oneOf(l, at.member("frame_class"), f.FrameClass)
	l.optionalID(parent, f.ParentFrameID)
	switch {
	case f.FrameClass == Subcall && f.ParentFrameID == nil:
		l.add(parent, "expected the enclosing frame, because frame_class is subcall")
	case f.FrameClass == TopLevel && f.ParentFrameID != nil:
		l.add(parent, "expected nothing, because frame_class is top_level")
	case f.ParentFrameID != nil && *f.ParentFrameID == f.FrameID:
		l.add(parent, "expected another frame: a frame is never its own parent")
	}
}

// ---- payloads

// Validate checks size, digest, encoding and placements (DECISIONS L13). Expiry
// is checked when the payload is delivered: [PayloadEnvelope.Expired].
func (p PayloadEnvelope) Validate() error { return validate(p.check) }

func (p PayloadEnvelope) check(l *list, at path) {
	if p.SchemaVersion != 1 {
		l.add(at.member("schema_version"), "expected 1, got %d", p.SchemaVersion)
	}
	l.id(at.member("payload_id"), p.PayloadID)
	l.id(at.member("client_id"), p.ClientID)
	l.id(at.member("payload_kind"), p.PayloadKind)
	l.id(at.member("format"), p.Format)
	l.optionalID(at.member("idempotency_key"), p.IdempotencyKey)
	if p.Redaction == "" {
		l.add(at.member("redaction"), "expected a non-empty string")
	}
	if p.Metadata == nil {
		l.add(at.member("metadata"), "expected an object")
	}
	p.checkPlacements(l, at.member("acceptable_placements"))
	p.checkBody(l, at)
}

func (p PayloadEnvelope) checkPlacements(l *list, at path) {
	if len(p.AcceptablePlacements) == 0 {
		l.add(at, "expected at least one placement")
	}
	seen := map[PayloadPlacement]bool{}
	for i, a := range p.AcceptablePlacements {
		at := at.index(i)
		oneOf(l, at.member("placement"), a.Placement)
		oneOf(l, at.member("requirement"), a.Requirement)
		if seen[a.Placement] && a.Placement.Valid() {
			l.add(at.member("placement"), "expected each placement once, got %s again", a.Placement)
		}
		seen[a.Placement] = true
	}
}

func (p PayloadEnvelope) checkBody(l *list, at path) {
	l.notNegative(at.member("byte_size"), p.ByteSize)
	sum := l.digest(at.member("content_digest"), p.ContentDigest)
	encoded := p.ContentEncoding == "utf8" || p.ContentEncoding == "base64"
	if !encoded {
		l.add(at.member("content_encoding"), "expected utf8 or base64, got %s", show(p.ContentEncoding))
	}
	receiptOnly := !slices.ContainsFunc(p.AcceptablePlacements, func(a AcceptablePlacement) bool { return a.Placement != ReceiptOnly })
	switch {
	case p.Body != nil && p.BodyRef != nil:
		l.add(at.member("body_ref"), "expected null, because there is a body: the two are mutually exclusive")
	case p.BodyRef != nil && *p.BodyRef == "":
		l.add(at.member("body_ref"), "expected a non-empty string")
	case p.Body == nil && p.BodyRef == nil && !receiptOnly:
		l.add(at.member("body"), "expected a body or a body_ref: both may be null only when every acceptable placement is receipt_only")
	}
	if p.Body == nil || !encoded {
		return
	}
	body, ok := p.decoded()
	switch {
	case !ok:
		l.add(at.member("body"), "expected %s text, as content_encoding says", p.ContentEncoding)
		return
	case p.ByteSize >= 0 && int64(len(body)) != p.ByteSize:
		l.add(at.member("byte_size"), "expected %d, the length of the decoded body, got %d", len(body), p.ByteSize)
	}
	if got := sha256.Sum256(body); sum != nil && string(sum) != string(got[:]) {
		l.add(at.member("content_digest"), "expected the SHA-256 of the decoded body")
	}
}

// decoded is the body that byte_size and content_digest describe. Lifeloop does
// no more with a body than these "transport-safe encoding checks".
func (p PayloadEnvelope) decoded() ([]byte, bool) {
	if p.ContentEncoding == "utf8" {
		return p.Body.b, utf8.Valid(p.Body.b)
	}
	// The decoder skips line ends, which RFC 4648 does not allow here.
	if strings.ContainsAny(p.Body.Reveal(), "\r\n") {
		return nil, false
	}
	body, err := base64.StdEncoding.Strict().DecodeString(p.Body.Reveal())
	return body, err == nil
}

// ---- receipts

// Validate checks a receipt (DECISIONS L14). [Parse] checks that the required
// nullable members are present.
func (r Receipt) Validate() error { return validate(r.check) }

func (r Receipt) check(l *list, at path) {
	if r.SchemaVersion != 1 {
		l.add(at.member("schema_version"), "expected 1, got %d", r.SchemaVersion)
	}
	l.id(at.member("receipt_id"), r.ReceiptID)
	l.optionalID(at.member("idempotency_key"), r.IdempotencyKey)
	l.id(at.member("client_id"), r.ClientID)
	l.id(at.member("adapter_id"), r.AdapterID)
	l.id(at.member("invocation_id"), r.InvocationID)
	oneOf(l, at.member("event"), r.Event)
	if r.Event == ReceiptEmitted {
		l.add(at.member("event"), "expected any event but receipt.emitted, which makes no receipt of its own")
	}
	l.id(at.member("event_id"), r.EventID)
	if r.Sequence != nil {
		l.notNegative(at.member("sequence"), *r.Sequence)
	}
	l.optionalID(at.member("parent_receipt_id"), r.ParentReceiptID)
	if r.ParentReceiptID != nil && *r.ParentReceiptID == r.ReceiptID {
		l.add(at.member("parent_receipt_id"), "expected another receipt: a receipt is never its own parent")
	}
	oneOf(l, at.member("integration_mode"), r.IntegrationMode)
	oneOf(l, at.member("status"), r.Status)
	l.notNegative(at.member("at_epoch_s"), r.AtEpochS)
	l.optionalID(at.member("harness_session_id"), r.HarnessSessionID)
	l.optionalID(at.member("harness_run_id"), r.HarnessRunID)
	l.optionalID(at.member("harness_task_id"), r.HarnessTaskID)
	for i, p := range r.PayloadReceipts {
		p.check(l, at.member("payload_receipts").index(i))
	}
	for i, d := range r.CapabilityDegradations {
		d.check(l, at.member("capability_degradations").index(i))
	}
	switch {
	case r.FailureClass != nil:
		oneOf(l, at.member("failure_class"), *r.FailureClass)
		if r.RetryClass == nil {
			l.add(at.member("retry_class"), "expected a retry class, because there is a failure class")
		}
	case r.Status == Failed:
		l.add(at.member("failure_class"), "expected a failure class, because the status is failed")
	}
	l.retry(at.member("retry_class"), r.RetryClass, r.FailureClass)
}

func (p PayloadReceipt) check(l *list, at path) {
	l.id(at.member("payload_id"), p.PayloadID)
	l.id(at.member("payload_kind"), p.PayloadKind)
	oneOf(l, at.member("placement"), p.Placement)
	oneOf(l, at.member("status"), p.Status)
	l.notNegative(at.member("byte_size"), p.ByteSize)
	l.digest(at.member("content_digest"), p.ContentDigest)
}

// Validate checks that a degradation names its capability and a real change
// of support, in either direction (DECISIONS L8).
func (d Degradation) Validate() error { return validate(d.check) }

func (d Degradation) check(l *list, at path) {
	if d.Event != CapabilityDegraded {
		l.add(at.member("event"), "expected %s, got %s", CapabilityDegraded, show(string(d.Event)))
	}
	l.id(at.member("capability"), d.Capability)
	oneOf(l, at.member("previous_support"), d.PreviousSupport)
	oneOf(l, at.member("current_support"), d.CurrentSupport)
	if d.PreviousSupport == d.CurrentSupport && d.CurrentSupport.Valid() {
		l.add(at.member("current_support"), "expected another support state than previous_support")
	}
	l.notNegative(at.member("observed_at_epoch_s"), d.ObservedAtEpochS)
	if d.Evidence == "" {
		l.add(at.member("evidence"), "expected a non-empty string")
	}
	l.evidence(at.member("evidence"), d.Evidence)
	oneOf(l, at.member("retry_class"), d.RetryClass)
}

// ---- manifests

// Validate checks a manifest (DECISIONS L15).
func (m Manifest) Validate() error { return validate(m.check) }

func (m Manifest) check(l *list, at path) {
	l.version(at.member("contract_version"), m.ContractVersion)
	l.id(at.member("adapter_id"), m.AdapterID)
	l.id(at.member("adapter_version"), m.AdapterVersion)
	l.id(at.member("display_name"), m.DisplayName)
	oneOf(l, at.member("role"), m.Role)
	m.checkModes(l, at.member("integration_modes"))
	m.checkEvents(l, at.member("lifecycle_events"))
	m.checkPlacements(l, at.member("placement"))
	m.ContextPressure.check(l, at.member("context_pressure"))
	oneOf(l, at.member("receipts").member("receipt_ledger"), m.Receipts.ReceiptLedger)
	if id := m.SessionIdentity; id != nil {
		at := at.member("session_identity")
		oneOf(l, at.member("harness_session_id"), id.HarnessSessionID)
		oneOf(l, at.member("harness_run_id"), id.HarnessRunID)
		oneOf(l, at.member("harness_task_id"), id.HarnessTaskID)
	}
	if m.SessionRename != nil {
		m.SessionRename.check(l, at.member("session_rename"))
	}
	if m.ApprovalSurface != nil {
		m.ApprovalSurface.check(l, at.member("approval_surface"))
	}
	if m.Renewal != nil {
		m.Renewal.check(l, at.member("renewal"))
	}
	for i, c := range m.FailureModes {
		oneOf(l, at.member("failure_modes").index(i), c)
	}
	for i, s := range m.TelemetrySources {
		at := at.member("telemetry_sources").index(i)
		l.id(at.member("name"), s.Name)
		l.id(at.member("kind"), s.Kind)
		oneOf(l, at.member("support"), s.Support)
	}
	for i, d := range m.KnownDegradations {
		d.check(l, at.member("known_degradations").index(i))
	}
}

func (m Manifest) checkModes(l *list, at path) {
	if len(m.IntegrationModes) == 0 {
		l.add(at, "expected at least one integration mode")
	}
	for i, mode := range m.IntegrationModes {
		oneOf(l, at.index(i), mode)
		if mode.Valid() && slices.Index(m.IntegrationModes, mode) < i {
			l.add(at.index(i), "expected each mode once, got %s again", mode)
		}
	}
}

func (m Manifest) checkEvents(l *list, at path) {
	for _, e := range slices.Sorted(maps.Keys(m.LifecycleEvents)) {
		claim, at := m.LifecycleEvents[e], at.member(string(e))
		if !e.Valid() {
			l.add(at, "expected a lifecycle event name")
			continue
		}
		oneOf(l, at.member("support"), claim.Support)
		switch {
		case claim.Support == Unavailable && len(claim.Modes) > 0:
			l.add(at.member("modes"), "expected no modes, because the support is unavailable")
		case claim.Support != Unavailable && len(claim.Modes) == 0:
			l.add(at.member("modes"), "expected at least one mode, because the support is not unavailable")
		}
		for i, mode := range claim.Modes {
			if !slices.Contains(m.IntegrationModes, mode) {
				l.add(at.member("modes").index(i), "expected one of integration_modes, got %s", show(string(mode)))
			}
		}
	}
}

func (m Manifest) checkPlacements(l *list, at path) {
	for _, p := range slices.Sorted(maps.Keys(m.Placement)) {
		claim, at := m.Placement[p], at.member(string(p))
		if !p.Valid() {
			l.add(at, "expected a manifest placement class")
			continue
		}
		oneOf(l, at.member("support"), claim.Support)
		if claim.MaxBytes != nil && *claim.MaxBytes <= 0 {
			l.add(at.member("max_bytes"), "expected a positive integer, got %d", *claim.MaxBytes)
		}
		if claim.SeenAs != "" {
			oneOf(l, at.member("seen_as"), claim.SeenAs)
		}
	}
}

func (c Claim) check(l *list, at path) {
	oneOf(l, at.member("support"), c.Support)
	l.evidence(at.member("evidence"), c.Evidence)
}

func (r RenewalClaims) check(l *list, at path) {
	reset, continuation := at.member("reset"), at.member("continuation")
	oneOf(l, reset.member("native"), r.Reset.Native)
	oneOf(l, reset.member("wrapper_mediated"), r.Reset.WrapperMediated)
	oneOf(l, reset.member("manual"), r.Reset.Manual)
	oneOf(l, continuation.member("observation"), r.Continuation.Observation)
	oneOf(l, continuation.member("payload_delivery"), r.Continuation.PayloadDelivery)
	noReset := r.Reset.Native == Unavailable && r.Reset.WrapperMediated == Unavailable && r.Reset.Manual == Unavailable
	if noReset && r.Continuation.PayloadDelivery != Unavailable {
		l.add(continuation.member("payload_delivery"), "expected unavailable, because no reset is available that a payload could survive")
	}
	for i, p := range r.Profiles {
		l.id(at.member("profiles").index(i), p)
	}
	l.evidence(at.member("evidence"), r.Evidence)
}
