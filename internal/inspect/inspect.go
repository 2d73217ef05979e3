// Package inspect explains a manifest to people, one claim at a time. It judges
// nothing: what a session really has is decided by package negotiate.
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

// meaning explains a capability. A telemetry source is what its
// adapter calls it.
func meaning(capability string) string {
	switch capability {
	case "session.starting":
		return "a harness session is about to start, attach or resume"
	case "session.started":
		return "a harness session is live"
	case "frame.opening":
		return "a prompt or turn is about to begin and can receive payloads"
	case "frame.opened":
		return "a prompt or turn has begun"
	case "context.pressure_observed":
		return "how full the model's context is"
	case "context.compacted":
		return "the harness has rewritten its context"
	case "frame.ending":
		return "a turn is about to end"
	case "frame.ended":
		return "a turn has ended, failed or been abandoned"
	case "session.ending":
		return "a harness session is about to end"
	case "session.ended":
		return "a harness session has ended or been abandoned"
	case "supervisor.tick":
		return "a periodic report about a running session"
	case "capability.degraded":
		return "a capability became weaker or stronger in a session"
	case "receipt.emitted":
		return "a receipt was recorded"
	case "receipt.gap_detected":
		return "expected receipts are missing"
	case "placement.pre_session":
		return "a payload is placed before any frame opens"
	case "placement.pre_frame_leading":
		return "a payload is placed before the prompt of a turn"
	case "placement.pre_frame_trailing":
		return "a payload is placed after the prompt and before the model runs"
	case "placement.tool_result":
		return "a payload is placed in a tool's result"
	case "placement.manual_operator":
		return "the user places a payload"
	case "context_pressure":
		return "the use of the model's context can be measured"
	case "receipts.native":
		return "the harness writes receipts itself"
	case "receipts.receipt_ledger":
		return "receipts are recorded, in order and without duplicates"
	case "session_identity.harness_session_id":
		return "the harness's id of its session is known"
	case "session_identity.harness_run_id":
		return "each launch of the process has an id"
	case "session_identity.harness_task_id":
		return "the task that the session serves has an id"
	case "session_rename":
		return "a session can be renamed"
	case "approval_surface":
		return "questions to the user are reported"
	case "renewal.reset.native":
		return "the harness can reset its session"
	case "renewal.reset.wrapper_mediated":
		return "the wrapper can reset the session"
	case "renewal.reset.manual":
		return "the user can reset the session"
	case "renewal.continuation.observation":
		return "continuation after a reset can be proven"
	case "renewal.continuation.payload_delivery":
		return "payloads are carried across a reset"
	}
	return ""
}

func supportMeaning(s lifeloop.Support) string {
	switch s {
	case lifeloop.Native:
		return "provided by the harness"
	case lifeloop.Synthesized:
		return "derived from another stable signal"
	case lifeloop.Manual:
		return "the user must act"
	case lifeloop.Partial:
		return "incomplete; clients must accept that explicitly"
	case lifeloop.Unavailable:
		return "not available"
	}
	return ""
}

// ConformanceMeaning explains a level of conformance.
func ConformanceMeaning(level string) string {
	switch level {
	case manifests.V1:
		return "a test proves each claim"
	case manifests.Pre:
		return "the claims are not yet tested end to end"
	case manifests.None:
		return "not for a specific harness: works with any program"
	}
	return ""
}

// notBy begins the caveat that names the modes without an event.
const notBy = "not by "

// An Inspection is a manifest, one claim at a time.
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
	// KnownDegradations are those that are not caveats of a claim above.
	KnownDegradations []lifeloop.Degradation `json:"known_degradations"`
}

// A Claim is one capability of a manifest and what supports the claim.
type Claim struct {
	Capability string                     `json:"capability"`
	Means      string                     `json:"means"`
	Support    lifeloop.Support           `json:"support"`
	Modes      []lifeloop.IntegrationMode `json:"modes,omitempty"`
	Evidence   string                     `json:"evidence,omitempty"`
	Caveats    []string                   `json:"caveats,omitempty"`
}

// Notes are the caveats that Modes do not already express.
func (c Claim) Notes() []string {
	return slices.DeleteFunc(slices.Clone(c.Caveats), func(text string) bool { return strings.HasPrefix(text, notBy) })
}

// A FailureMode is a failure that the manifest declares, and how to retry.
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
		if claim.SeenAs != "" {
			caveat("the model sees it as %s text", claim.SeenAs)
		}
	}
	if source, ok := strings.CutPrefix(name, "telemetry."); ok {
		i := slices.IndexFunc(m.TelemetrySources, func(s lifeloop.TelemetrySource) bool { return s.Name == source })
		s := m.TelemetrySources[i] // the name comes from the manifest
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
	case strings.HasPrefix(name, "renewal.") && m.Renewal != nil:
		c.Evidence = m.Renewal.Evidence
		if len(m.Renewal.Profiles) > 0 && c.Support != lifeloop.Unavailable {
			caveat("only with the profile %s", strings.Join(m.Renewal.Profiles, " or "))
		}
	case name == "receipts.native" && m.Receipts.LifeloopSynthesized:
		caveat("the wrapper writes receipts instead")
	}
	for _, d := range m.KnownDegradations {
		if d.Capability == name {
			caveat("degraded from %s to %s: %s (%s)", d.PreviousSupport, d.CurrentSupport, d.Evidence, d.RetryClass)
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
