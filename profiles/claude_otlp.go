package profiles

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lifeloop/telemetry/claude"
)

// exportCapability is the capability that a launch lacks if the harness cannot
// export telemetry to the wrapper.
const exportCapability = "telemetry.otlp"

// claudeExport returns variables that make Claude Code export its log events, and
// nothing else, to the wrapper. The user's own exports continue: Claude Code
// sends metrics and traces directly to the user's endpoint, and the wrapper
// forwards log events in the user's format and with the user's headers.
//
// A variable in a settings file overrides the environment. If one of the user's
// settings files sets one of these variables, the injected settings file must set
// it too. file is true if a settings file is injected.
func claudeExport(user userSettings, file bool, h Host) (env map[string]string, x Export, reason string) {
	if user.flaw != "" {
		return nil, x, user.flaw
	}
	const logs, all = "OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_"
	theirs := func(name string) string {
		if v, set := lookupEnv(user.layers, name); set {
			return v
		}
		return h.getenv(name)
	}
	either := func(name string) string {
		if v := theirs(logs + name); v != "" {
			return v
		}
		return theirs(all + name)
	}
	on := truthy(theirs("CLAUDE_CODE_ENABLE_TELEMETRY"))
	exporters := strings.FieldsFunc(theirs("OTEL_LOGS_EXPORTER"), func(r rune) bool { return r == ',' || r == ' ' })
	protocol := either("PROTOCOL") // if no protocol is set, Claude Code exports nothing
	env = map[string]string{logs + "ENDPOINT": h.OTLP + "/v1/logs"}

	if on && slices.Contains(exporters, "otlp") && protocol != "" {
		if protocol != "http/json" && protocol != "http/protobuf" {
			return nil, x, "the user exports log events by " + protocol + ", which the wrapper cannot receive"
		}
		for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
			if either(name) != "" {
				return nil, x, "the user exports log events with a TLS certificate, which the wrapper cannot use when it forwards them"
			}
		}
		switch {
		case theirs(logs+"ENDPOINT") != "":
			x.Chain = theirs(logs + "ENDPOINT")
		case theirs(all+"ENDPOINT") != "":
			x.Chain = strings.TrimSuffix(theirs(all+"ENDPOINT"), "/") + "/v1/logs"
		default:
			x.Chain = "http://localhost:4318/v1/logs"
		}
	} else {
		if !on {
			// The user has not enabled telemetry, so enable it for log events only.
			env["CLAUDE_CODE_ENABLE_TELEMETRY"] = "1"
			env["OTEL_METRICS_EXPORTER"], env["OTEL_TRACES_EXPORTER"] = "none", "none"
			exporters = nil
		}
		exporters = slices.DeleteFunc(exporters, func(s string) bool { return s == "otlp" || s == "none" })
		env["OTEL_LOGS_EXPORTER"] = strings.Join(append(exporters, "otlp"), ",")
		env[logs+"PROTOCOL"] = "http/json"
		if theirs("OTEL_LOGS_EXPORT_INTERVAL") == "" {
			env["OTEL_LOGS_EXPORT_INTERVAL"] = "1000"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if v, set := lookupEnv(user.managed, name); set && v != env[name] {
			return nil, Export{}, "the machine's managed settings set " + name
		}
		if _, set := lookupEnv(user.layers, name); set && !file {
			return nil, Export{}, "a settings file sets " + name + ", and no settings are injected that could override it"
		}
	}
	x.Decoder = claude.OTLP
	return env, x, ""
}

// lookupEnv returns a variable from the strongest layer that sets it.
func lookupEnv(layers []settings, name string) (string, bool) {
	for _, s := range layers {
		var env map[string]any
		if json.Unmarshal(s["env"], &env) != nil {
			continue
		}
		if v, set := env[name]; set {
			return fmt.Sprint(v), true
		}
	}
	return "", false
}

// mergeEnv adds the variables in env to the member "env" of the user's settings.
func mergeEnv(user settings, env map[string]string) error {
	members := map[string]json.RawMessage{}
	if raw, ok := user["env"]; ok {
		if !isObject(raw) || json.Unmarshal(raw, &members) != nil {
			return fmt.Errorf("its env is not an object")
		}
	}
	for name, v := range env {
		members[name] = encode(v)
	}
	user["env"] = encode(members)
	return nil
}
