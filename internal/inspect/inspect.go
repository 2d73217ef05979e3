// Package inspect explains a manifest to people, one claim at a time. A manifest
// lists what this program can observe and control in a harness (package manifests).
// Package inspect does not decide which capabilities a session has; package negotiate does.
//
//	inspect.Manifest(m).Print(os.Stdout)
package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

// meaning explains a capability. It has no text for telemetry sources, which
// are explained by their kind.
func meaning(capability string) string {
	return map[string]string{
		"session.starting":                      "a harness session is about to start, attach or resume",
		"session.started":                       "a harness session is live",
		"frame.opening":                         "a prompt or turn is about to begin and can receive payloads",
		"frame.opened":                          "a prompt or turn has begun",
		"context.pressure_observed":             "how full the model's context is",
		"context.compacted":                     "the harness has rewritten its context",
		"frame.ending":                          "a turn is about to end",
		"frame.ended":                           "a turn has ended, failed or been abandoned",
		"session.ending":                        "a harness session is about to end",
		"session.ended":                         "a harness session has ended or been abandoned",
		"supervisor.tick":                       "a periodic report about a running session",
		"capability.degraded":                   "a capability became weaker or stronger in a session",
		"receipt.emitted":                       "a receipt was recorded",
		"receipt.gap_detected":                  "records of the harness are missing, according to its own sequence numbers",
		"placement.pre_session":                 "a payload is placed before any frame opens",
		"placement.pre_frame_leading":           "a payload is placed before the prompt of a turn",
		"placement.pre_frame_trailing":          "a payload is placed after the prompt and before the model runs",
		"placement.tool_result":                 "a payload is placed in a tool's result",
		"placement.manual_operator":             "the user places a payload",
		"context_pressure":                      "the use of the model's context can be measured",
		"receipts.native":                       "the harness writes receipts itself",
		"receipts.receipt_ledger":               "receipts are recorded, in order and without duplicates",
		"session_identity.harness_session_id":   "the id that the harness gives its session is known",
		"session_identity.harness_run_id":       "each launch of the harness has an id",
		"session_identity.harness_task_id":      "the task that the session serves has an id",
		"session_rename":                        "a session can be renamed",
		"approval_surface":                      "questions to the user are reported",
		"renewal.reset.native":                  "the harness can reset its session",
		"renewal.reset.wrapper_mediated":        "the wrapper can reset the session",
		"renewal.reset.manual":                  "the user can reset the session",
		"renewal.continuation.observation":      "it can be proven that the session continued after a reset",
		"renewal.continuation.payload_delivery": "the text carried across a reset (the continuation) reaches the model",
		negotiate.ContinuationStore:             "the wrapper keeps the continuation between two harness sessions",
	}[capability]
}

func supportMeaning(s lifeloop.Support) string {
	return map[lifeloop.Support]string{
		lifeloop.Native:      "provided by the harness",
		lifeloop.Synthesized: "not provided directly, but derived from a stable signal",
		lifeloop.Manual:      "the user must act",
		lifeloop.Partial:     "incomplete; clients must accept that explicitly",
		lifeloop.Unavailable: "not available",
	}[s]
}

// ConformanceMeaning explains a level of conformance.
func ConformanceMeaning(level string) string {
	return map[string]string{
		manifests.V1:   "a test proves each claim",
		manifests.Pre:  "the claims are not yet tested end to end",
		manifests.None: "not for a specific harness: works with any program",
	}[level]
}

// notBy is the beginning of the note that lists the modes in which an event is
// not available.
const notBy = "not by "

// An Inspection is a manifest as a list of claims with explanations.
type Inspection struct {
	AdapterID        string                     `json:"adapter_id"`
	AdapterVersion   string                     `json:"adapter_version"`
	DisplayName      string                     `json:"display_name"`
	ContractVersion  string                     `json:"contract_version"`
	Role             lifeloop.Role              `json:"role"`
	Conformance      string                     `json:"conformance"`
	ConformanceMeans string                     `json:"conformance_means"`
	IntegrationModes []lifeloop.IntegrationMode `json:"integration_modes"`
	Claims           []Claim                    `json:"claims"`
	FailureModes     []FailureMode              `json:"failure_modes"`
	// KnownDegradations are the manifest's known degradations that are not already
	// notes of a claim.
	KnownDegradations []lifeloop.Degradation `json:"known_degradations"`
}

// A Claim is one capability of a manifest, with its level of support and the evidence.
type Claim struct {
	Capability string                     `json:"capability"`
	Means      string                     `json:"means"`
	Support    lifeloop.Support           `json:"support"`
	Modes      []lifeloop.IntegrationMode `json:"modes,omitempty"`
	Evidence   string                     `json:"evidence,omitempty"`
	Caveats    []string                   `json:"caveats,omitempty"`
}

// Notes returns the caveats, except those that Modes already shows.
func (c Claim) Notes() []string {
	return slices.DeleteFunc(slices.Clone(c.Caveats), func(text string) bool { return strings.HasPrefix(text, notBy) })
}

// A FailureMode is a failure that the manifest declares, and its retry class.
type FailureMode struct {
	FailureClass lifeloop.FailureClass `json:"failure_class"`
	RetryClass   lifeloop.RetryClass   `json:"retry_class"`
}

// Manifest inspects m.
func Manifest(m lifeloop.Manifest) Inspection {
	level := manifests.Conformance(m.AdapterID)
	in := Inspection{
		AdapterID: m.AdapterID, AdapterVersion: m.AdapterVersion, DisplayName: m.DisplayName, ContractVersion: m.ContractVersion,
		Role: m.Role, Conformance: level, ConformanceMeans: ConformanceMeaning(level), IntegrationModes: m.IntegrationModes,
		FailureModes: []FailureMode{}, KnownDegradations: []lifeloop.Degradation{},
	}
	names := negotiate.Names(m)
	for _, name := range names {
		in.Claims = append(in.Claims, inspectClaim(m, name))
	}
	for _, class := range m.FailureModes {
		in.FailureModes = append(in.FailureModes, FailureMode{class, class.DefaultRetry()})
	}
	for _, d := range m.KnownDegradations {
		if !slices.Contains(names, d.Capability) {
			in.KnownDegradations = append(in.KnownDegradations, d)
		}
	}
	return in
}

func inspectClaim(m lifeloop.Manifest, name string) Claim {
	c := Claim{Capability: name, Means: meaning(name), Support: negotiate.Support(m, name)}
	caveat := func(format string, args ...any) { c.Caveats = append(c.Caveats, fmt.Sprintf(format, args...)) }

	if event, ok := m.LifecycleEvents[lifeloop.Event(name)]; ok {
		c.Modes = event.Modes
		var without []string
		for _, mode := range m.IntegrationModes {
			if !slices.Contains(event.Modes, mode) {
				without = append(without, string(mode))
			}
		}
		if len(event.Modes) > 0 && len(without) > 0 {
			caveat(notBy+"%s alone", strings.Join(without, " or "))
		}
	}
	if class, ok := strings.CutPrefix(name, "placement."); ok {
		claim := m.Placement[lifeloop.Placement(class)]
		if claim.MaxBytes != nil {
			caveat("at most %d bytes", *claim.MaxBytes)
		}
		c.Evidence = claim.Evidence
		if claim.SeenAs != "" {
			caveat("the model sees the payload as text with the role %s", claim.SeenAs)
		}
	}
	if source, ok := strings.CutPrefix(name, "telemetry."); ok {
		i := slices.IndexFunc(m.TelemetrySources, func(s lifeloop.TelemetrySource) bool { return s.Name == source })
		s := m.TelemetrySources[i] // cannot fail, because the name comes from the manifest
		c.Means = "a source of kind " + s.Kind
		c.Evidence = s.Path
	}
	switch {
	case name == "context_pressure":
		c.Evidence = m.ContextPressure.Evidence
	case name == "session_rename" && m.SessionRename != nil:
		c.Evidence = m.SessionRename.Evidence
	case name == "approval_surface" && m.ApprovalSurface != nil:
		c.Evidence = m.ApprovalSurface.Evidence
	case (strings.HasPrefix(name, "renewal.") || name == negotiate.ContinuationStore) && m.Renewal != nil:
		c.Evidence = m.Renewal.Evidence
		if len(m.Renewal.Profiles) > 0 && c.Support != lifeloop.Unavailable {
			caveat("only with the profile %s", strings.Join(m.Renewal.Profiles, " or "))
		}
	case name == "receipts.native" && m.Receipts.LifeloopSynthesized:
		caveat("the wrapper writes receipts instead")
	}
	for _, d := range m.KnownDegradations {
		if d.Capability == name {
			caveat("degraded from %s to %s: %s (retry class: %s)", d.PreviousSupport, d.CurrentSupport, d.Evidence, d.RetryClass)
		}
	}
	return c
}

// Print writes the inspection for people, unavailable capabilities last.
func (in Inspection) Print(out io.Writer) error {
	fmt.Fprintf(out, "%s (%s), adapter version %s, contract %s\n", in.DisplayName, in.AdapterID, in.AdapterVersion, in.ContractVersion)
	fmt.Fprintf(out, "role %s; integration modes %s\n", in.Role, Join(in.IntegrationModes))
	fmt.Fprintf(out, "conformance %s: %s\n", in.Conformance, in.ConformanceMeans)
	var missing []Claim
	for _, support := range lifeloop.Supports() {
		heading := fmt.Sprintf("\n%s: %s\n", support, supportMeaning(support))
		for _, c := range in.Claims {
			if c.Support != support {
				continue
			}
			if support == lifeloop.Unavailable {
				missing = append(missing, c)
				continue
			}
			fmt.Fprint(out, heading)
			heading = ""
			fmt.Fprintf(out, "  %s: %s\n", c.Capability, c.Means)
			if len(c.Modes) > 0 {
				fmt.Fprintf(out, "      by %s\n", Join(c.Modes))
			}
			if c.Evidence != "" {
				fmt.Fprintf(out, "      evidence: %s\n", c.Evidence)
			}
			for _, text := range c.Caveats {
				fmt.Fprintf(out, "      note: %s\n", text)
			}
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "\n%s: %s\n", lifeloop.Unavailable, supportMeaning(lifeloop.Unavailable))
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, c := range missing {
		fmt.Fprintf(tw, "  %s\t%s", c.Capability, c.Means)
		if why := cmp.Or(c.Evidence, strings.Join(c.Caveats, "; ")); why != "" {
			fmt.Fprintf(tw, " (%s)", why)
		}
		fmt.Fprintln(tw)
	}
	for i, f := range in.FailureModes {
		if i == 0 {
			fmt.Fprint(tw, "\nfailure modes, and what to do before a retry\n")
		}
		fmt.Fprintf(tw, "  %s\t%s\n", f.FailureClass, f.RetryClass)
	}
	for i, d := range in.KnownDegradations {
		if i == 0 {
			fmt.Fprint(tw, "\nknown degradations\n")
		}
		fmt.Fprintf(tw, "  %s\tfrom %s to %s: %s\n", d.Capability, d.PreviousSupport, d.CurrentSupport, d.Evidence)
	}
	return tw.Flush()
}

// Join lists words of any string type, separated by commas.
func Join[S ~string](words []S) string {
	var all []string
	for _, w := range words {
		all = append(all, string(w))
	}
	return strings.Join(all, ", ")
}
