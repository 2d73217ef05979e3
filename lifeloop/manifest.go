package lifeloop

import "slices"

// Support says how strongly an adapter satisfies a capability claim.
type Support string

// The support states, strongest first.
const (
	Native      Support = "native"
	Synthesized Support = "synthesized"
	Partial     Support = "partial"
	Manual      Support = "manual"
	Unavailable Support = "unavailable"
)

// Supports lists the support states, strongest first (DECISIONS L5).
func Supports() []Support { return []Support{Native, Synthesized, Partial, Manual, Unavailable} }

func (Support) words() []string { return texts(Supports()...) }

// Valid reports whether s is one of the contract's support states.
func (s Support) Valid() bool { return slices.Contains(Supports(), s) }

// Stronger reports whether s is a stronger claim than t. An invalid state is
// weaker than any valid one.
func (s Support) Stronger(t Support) bool { return s.strength() > t.strength() }

func (s Support) strength() int {
	order := Supports()
	i := slices.Index(order, s)
	if i < 0 {
		return -1
	}
	return len(order) - i
}

// A Role is the one adapter role a manifest claims: primary_worker, worker,
// supervisor or observer.
type Role string

func (Role) words() []string { return []string{"primary_worker", "worker", "supervisor", "observer"} }

// A Placement is a manifest placement class: where in the lifecycle an
// adapter accepts a payload.
type Placement string

const (
	PreSession       Placement = "pre_session"
	PreFrameLeading  Placement = "pre_frame_leading"
	PreFrameTrailing Placement = "pre_frame_trailing"
	ToolResult       Placement = "tool_result"
	ManualOperator   Placement = "manual_operator"
)

// Placements lists the manifest placement classes, in the contract's order.
func Placements() []Placement {
	return []Placement{PreSession, PreFrameLeading, PreFrameTrailing, ToolResult, ManualOperator}
}

// Valid reports whether p is one of the contract's manifest placement classes.
func (p Placement) Valid() bool { return slices.Contains(Placements(), p) }

// An EventClaim is the support claimed for one lifecycle event.
type EventClaim struct {
	Support Support           `json:"support"`
	Modes   []IntegrationMode `json:"modes" wire:"optional"`
}

// A PlacementClaim is the support claimed for one placement class.
type PlacementClaim struct {
	Support  Support `json:"support"`
	MaxBytes *int64  `json:"max_bytes,omitempty"`
	// SeenAs is the role in which the model sees text with this placement. It decides
	// which placement class is a developer_equivalent_frame (DECISIONS L6). The
	// contract does not have this member.
	SeenAs   SeenAs `json:"seen_as,omitempty"`
	Evidence string `json:"evidence,omitempty" wire:"evidence"`
}

// A SeenAs is the role in which placed text reaches the model, for example that
// of the user.
type SeenAs string

const (
	SeenAsDeveloper SeenAs = "developer"
	SeenAsSystem    SeenAs = "system"
	SeenAsUser      SeenAs = "user"
)

func (SeenAs) words() []string { return texts(SeenAsDeveloper, SeenAsSystem, SeenAsUser) }

// A Claim is a support state with its evidence in words.
type Claim struct {
	Support  Support `json:"support"`
	Evidence string  `json:"evidence,omitempty" wire:"evidence"`
}

// ReceiptClaims says which receipts an adapter makes and whether they are
// stored.
type ReceiptClaims struct {
	Native              bool    `json:"native"`
	LifeloopSynthesized bool    `json:"lifeloop_synthesized"`
	ReceiptLedger       Support `json:"receipt_ledger"`
}

// IdentityClaims says which harness ids can be observed.
type IdentityClaims struct {
	HarnessSessionID Support `json:"harness_session_id"`
	HarnessRunID     Support `json:"harness_run_id"`
	HarnessTaskID    Support `json:"harness_task_id"`
}

// RenewalClaims says how well an adapter supports each way to reset the harness. It also
// says how well the adapter observes the start of the next harness session, and how well it
// delivers the continuation: the client's text for that session.
type RenewalClaims struct {
	Reset struct {
		Native          Support `json:"native"`
		WrapperMediated Support `json:"wrapper_mediated"`
		Manual          Support `json:"manual"`
	} `json:"reset"`
	Continuation struct {
		Observation     Support `json:"observation"`
		PayloadDelivery Support `json:"payload_delivery"`
	} `json:"continuation"`
	Profiles []string `json:"profiles,omitempty" wire:"id"`
	Evidence string   `json:"evidence,omitempty" wire:"evidence"`
}

// A TelemetrySource describes one source of signals that an adapter reads
// (DECISIONS L15).
type TelemetrySource struct {
	Name    string  `json:"name" wire:"id"`
	Kind    string  `json:"kind" wire:"id"`
	Path    string  `json:"path,omitempty"`
	Support Support `json:"support"`
}

// A Manifest is an adapter's honest report of lifecycle behaviour.
type Manifest struct {
	ContractVersion   string                       `json:"contract_version" wire:"version"`
	AdapterID         string                       `json:"adapter_id" wire:"id"`
	AdapterVersion    string                       `json:"adapter_version" wire:"id"`
	DisplayName       string                       `json:"display_name" wire:"id"`
	Role              Role                         `json:"role"`
	IntegrationModes  []IntegrationMode            `json:"integration_modes"`
	LifecycleEvents   map[Event]EventClaim         `json:"lifecycle_events"`
	Placement         map[Placement]PlacementClaim `json:"placement"`
	ContextPressure   Claim                        `json:"context_pressure"`
	Receipts          ReceiptClaims                `json:"receipts"`
	SessionIdentity   *IdentityClaims              `json:"session_identity,omitempty"`
	SessionRename     *Claim                       `json:"session_rename,omitempty"`
	Renewal           *RenewalClaims               `json:"renewal,omitempty"`
	ApprovalSurface   *Claim                       `json:"approval_surface,omitempty"`
	FailureModes      []FailureClass               `json:"failure_modes,omitempty"`
	TelemetrySources  []TelemetrySource            `json:"telemetry_sources,omitempty"`
	KnownDegradations []Degradation                `json:"known_degradations,omitempty"`
}
