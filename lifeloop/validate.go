package lifeloop

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxIDBytes is the maximum length of an identifier on the wire (DECISIONS L12).
const maxIDBytes = 256

// Validate checks a document by the wire tags and the types of its members, and
// by the rules of its check method.
func Validate[T document](doc T) error {
	l := rules(doc)
	return l.err()
}

func rules(doc any) (l list) {
	l.check(reflect.ValueOf(doc), "", "")
	return l
}

// check checks a value. rule is the wire tag of the member that has this value. The tag
// says what a string or a number must be. The tag of a list applies to each entry.
func (l *list) check(v reflect.Value, at path, rule string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			l.check(v.Elem(), at, rule)
		}
	case reflect.Slice:
		for i := range v.Len() {
			l.check(v.Index(i), at.index(i), rule)
		}
	case reflect.Struct:
		l.checkStruct(v, at)
	case reflect.String:
		if e, ok := v.Interface().(interface{ words() []string }); ok {
			if words := e.words(); !slices.Contains(words, v.String()) {
				l.add(at, "expected one of %s, got %s", strings.Join(words, ", "), show(v.String()))
			}
			return
		}
		l.text(at, v.String(), rule)
	case reflect.Int:
		if rule == "version" && v.Int() != 1 {
			l.add(at, "expected 1, got %d", v.Int())
		}
	case reflect.Int64:
		if rule == "size" && v.Int() < 0 {
			l.add(at, "expected a non-negative integer, got %d", v.Int())
		}
	}
}

func (l *list) checkStruct(v reflect.Value, at path) {
	for f, value := range v.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		rule := f.Tag.Get("wire")
		if rule == "own" || !f.IsExported() || options == "omitempty" && value.IsZero() {
			continue
		}
		l.check(value, at.member(name), rule)
	}
	if d, ok := v.Interface().(interface{ check(*list, path) }); ok {
		d.check(l, at)
	}
}

// text checks a string by the rule in its wire tag.
func (l *list) text(at path, s, rule string) {
	switch {
	case rule == "version":
		if s != Version && s != versionV01 {
			l.add(at, "expected %s or %s, got %s", Version, versionV01, show(s))
		}
	case rule == "digest":
		if _, ok := sum(s); !ok {
			l.add(at, "expected sha256: and 64 hex digits, got %s", show(s))
		}
	case rule == "id":
		l.id(at, s)
	case rule != "" && s == "":
		l.add(at, "expected a non-empty string")
	case rule == "evidence":
		l.evidence(at, s)
	}
}

// texts returns the words of a closed set as strings.
func texts[S ~string](words ...S) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
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

// ValidID reports whether s can be an identifier on the wire (DECISIONS L12).
func ValidID(s string) bool {
	var l list
	l.id("", s)
	return l.err() == nil
}

// sum returns the digest that s encodes.
func sum(s string) ([]byte, bool) {
	digits, tagged := strings.CutPrefix(s, "sha256:")
	sum, err := hex.DecodeString(digits)
	return sum, tagged && err == nil && len(sum) == sha256.Size
}

// retry checks a retry class against the failure class it belongs to: it may be
// more restrictive than the default, but not less.
func (l *list) retry(at path, retry *RetryClass, failure *FailureClass) {
	if retry == nil || failure == nil || !failure.Valid() || !retry.Valid() {
		return
	}
	if least := failure.DefaultRetry(); least.Tighter(*retry) {
		l.add(at, "expected retry class %s or a more restrictive one for failure class %s, got %s", least, *failure, *retry)
	}
}

// evidence rejects text that looks like a secret: evidence "must not contain
// client-owned continuation tokens". A token cannot be recognized for certain, so
// evidence rejects a run of letters, digits, "_", "-", "+" and "=" that has a digit and
// is too long for a word.
func (l *list) evidence(at path, s string) {
	const longestWord = 31
	isToken := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-+=", r)
	}
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return !isToken(r) }) {
		if n := utf8.RuneCountInString(run); n > longestWord && strings.ContainsAny(run, "0123456789") {
			l.add(at, "expected words; a run of %d letters and digits may be a secret, which evidence must not contain", n)
			return
		}
	}
}

// ---- callbacks (DECISIONS L11, L12)

func (r CallbackRequest) check(l *list, at path) {
	if r.FrameContext == nil && r.Event.Frame() {
		l.add(at.member("frame_context"), "expected a frame context, because the event is %s", show(string(r.Event)))
	}
}

// Validate checks the answer to a request of the given version (DECISIONS L11).
// With an empty requestVersion, any version of the contract is accepted.
func (r CallbackResponse) Validate(requestVersion string) error {
	var l list
	if requestVersion != "" && r.SchemaVersion != "" && r.SchemaVersion != requestVersion {
		l.add("schema_version", "expected the request's version %s, got %s", requestVersion, show(r.SchemaVersion))
	}
	l.merge(rules(r))
	return l.err()
}

func (r CallbackResponse) check(l *list, at path) {
	switch class := at.member("failure_class"); {
	case r.Status == Failed && r.FailureClass == nil:
		l.add(class, "expected a failure class, because the status is failed")
	case r.Status != Failed && r.FailureClass != nil:
		l.add(class, "expected null or no member, because the status is not failed")
	default:
		l.check(reflect.ValueOf(r.FailureClass), class, "")
	}
	l.retry(at.member("retry_class"), r.RetryClass, r.FailureClass)
}

// ---- frames

// A subcall has a parent, a top-level frame has none, and no frame is its own
// parent.
func (f FrameContext) check(l *list, at path) {
	parent := at.member("parent_frame_id")
	switch {
	case f.FrameClass == Subcall && f.ParentFrameID == nil:
		l.add(parent, "expected the enclosing frame, because frame_class is subcall")
	case f.FrameClass == TopLevel && f.ParentFrameID != nil:
		l.add(parent, "expected null or no member, because frame_class is top_level")
	case f.ParentFrameID != nil && *f.ParentFrameID == f.FrameID:
		l.add(parent, "expected another frame: a frame is never its own parent")
	}
}

// An event names its sources, and a frame event names its frame.
func (r EventRecord) check(l *list, at path) {
	if r.FrameContext == nil && r.Event.Frame() {
		l.add(at.member("frame_context"), "expected a frame context, because the event is %s", show(string(r.Event)))
	}
	if len(r.Evidence) == 0 {
		l.add(at.member("evidence"), "expected at least one source")
	}
}

// ---- payloads

// Size, digest, encoding and placements are checked here (DECISIONS L13). The expiry is
// checked when the payload is delivered (see [PayloadEnvelope.Expired]).
func (p PayloadEnvelope) check(l *list, at path) {
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
		if seen[a.Placement] && a.Placement.Valid() {
			l.add(at.index(i).member("placement"), "expected each placement once, got %s again", a.Placement)
		}
		seen[a.Placement] = true
	}
}

func (p PayloadEnvelope) checkBody(l *list, at path) {
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
	if p.ContentDigest == nil {
		return
	}
	got := sha256.Sum256(body)
	if want, ok := sum(*p.ContentDigest); ok && string(want) != string(got[:]) {
		l.add(at.member("content_digest"), "expected the SHA-256 of the decoded body")
	}
}

// decoded returns the decoded body, which byte_size and content_digest describe. It
// returns false if the body is not valid in its content_encoding. The contract allows
// only such "transport-safe encoding checks" of a body.
func (p PayloadEnvelope) decoded() ([]byte, bool) {
	if p.ContentEncoding == "utf8" {
		return p.Body.b, utf8.Valid(p.Body.b)
	}
	// Go's decoder skips line ends, but RFC 4648 does not allow them here.
	if strings.ContainsAny(p.Body.Reveal(), "\r\n") {
		return nil, false
	}
	body, err := base64.StdEncoding.Strict().DecodeString(p.Body.Reveal())
	return body, err == nil
}

// ---- receipts

// check does not report missing members. Some members of a receipt may be null but must
// be present, and [Parse] checks that (DECISIONS L14).
func (r Receipt) check(l *list, at path) {
	if r.Event == ReceiptEmitted {
		l.add(at.member("event"), "expected any event but receipt.emitted, for which there is no receipt")
	}
	if r.ParentReceiptID != nil && *r.ParentReceiptID == r.ReceiptID {
		l.add(at.member("parent_receipt_id"), "expected another receipt: a receipt is never its own parent")
	}
	switch {
	case r.FailureClass != nil && r.RetryClass == nil:
		l.add(at.member("retry_class"), "expected a retry class, because there is a failure class")
	case r.FailureClass == nil && r.Status == Failed:
		l.add(at.member("failure_class"), "expected a failure class, because the status is failed")
	}
	l.retry(at.member("retry_class"), r.RetryClass, r.FailureClass)
}

// A degradation must change the support to another state, weaker or stronger
// (DECISIONS L8).
func (d Degradation) check(l *list, at path) {
	if d.Event != CapabilityDegraded {
		l.add(at.member("event"), "expected %s, got %s", CapabilityDegraded, show(string(d.Event)))
	}
	if d.PreviousSupport == d.CurrentSupport && d.CurrentSupport.Valid() {
		l.add(at.member("current_support"), "expected a support state other than previous_support")
	}
}

// ---- manifests (DECISIONS L15)

func (m Manifest) check(l *list, at path) {
	for i, d := range m.KnownDegradations {
		l.evidence(at.member("known_degradations").index(i).member("evidence"), d.Evidence)
	}
	m.checkModes(l, at.member("integration_modes"))
	m.checkEvents(l, at.member("lifecycle_events"))
	m.checkPlacements(l, at.member("placement"))
}

func (m Manifest) checkModes(l *list, at path) {
	if len(m.IntegrationModes) == 0 {
		l.add(at, "expected at least one integration mode")
	}
	for i, mode := range m.IntegrationModes {
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
		l.check(reflect.ValueOf(claim.Support), at.member("support"), "")
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
		l.check(reflect.ValueOf(claim), at, "")
		if claim.MaxBytes != nil && *claim.MaxBytes <= 0 {
			l.add(at.member("max_bytes"), "expected a positive integer, got %d", *claim.MaxBytes)
		}
	}
}

func (r RenewalClaims) check(l *list, at path) {
	noReset := r.Reset.Native == Unavailable && r.Reset.WrapperMediated == Unavailable && r.Reset.Manual == Unavailable
	if noReset && r.Continuation.PayloadDelivery != Unavailable {
		l.add(at.member("continuation").member("payload_delivery"), "expected unavailable, because every kind of reset is unavailable")
	}
}
