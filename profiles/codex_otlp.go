package profiles

import (
	"path/filepath"
	"regexp"
	"strings"

	"lifeloop/telemetry/codex"
)

// codexExport returns the override that makes Codex export its log events to the
// wrapper. If the user has an exporter, the override keeps its format and changes
// only the address. The user's headers may be secrets, which other users could
// read on a command line, so the wrapper adds them when it forwards. If the user's
// exporter cannot be parsed or forwarded, it is not changed, and reason is not
// empty.
func codexExport(line codexLine, h Host) (override string, x Export, reason string) {
	if line.overrides("otel") {
		return "", x, "the command line sets otel or a key below otel"
	}
	ours := h.OTLP + "/v1/logs"
	table := "endpoint=" + tomlString(ours) + `,protocol="json"`
	found := 0
	for _, path := range append(codexConfigs(line, h), filepath.Join(h.Dir, ".codex", "config.toml")) {
		data, _ := h.read(path)
		theirs, set, ok := codexExporter(string(data))
		if !set {
			continue
		}
		if found++; !ok || found > 1 {
			return "", x, "the user's otel settings have a form that is not supported"
		}
		if theirs == "" {
			continue // the exporter is `none`
		}
		var headers string
		if at := codexHeaders().FindStringSubmatchIndex(theirs); at != nil {
			headers, theirs = theirs[at[2]:at[3]], theirs[:at[0]]+theirs[at[1]:]
		}
		if x.Headers, ok = codexHeaderPairs(headers); !ok || strings.ContainsAny(theirs, "{}") {
			return "", Export{}, "the user's otel settings have a form that is not supported"
		}
		endpoint := codexEndpoint().FindStringSubmatchIndex(theirs)
		x.Chain = theirs[endpoint[2]:endpoint[3]]
		table = strings.TrimSpace(theirs[:endpoint[2]] + ours + theirs[endpoint[3]:])
	}
	x.Decoder = codex.OTLP
	return "otel.exporter={otlp-http={" + table + "}}", x, ""
}

// The patterns are compiled when they are used. If they were compiled at program
// start, every hook call would be delayed.

// codexEndpoint matches the endpoint in the table of an exporter, if it is a
// plain string.
func codexEndpoint() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[,{\s])endpoint\s*=\s*"([^"\\]+)"`)
}

// codexHeaders matches headers that follow another member. Headers as the first
// member are not supported.
func codexHeaders() *regexp.Regexp {
	return regexp.MustCompile(`,\s*headers\s*=\s*\{([^{}]*)\}`)
}

func codexHeader() *regexp.Regexp {
	return regexp.MustCompile(`^\s*"?([A-Za-z0-9_-]+)"?\s*=\s*"([^"\\]*)"\s*$`)
}

// codexHeaderPairs parses the inside of a table of headers.
func codexHeaderPairs(text string) (map[string]string, bool) {
	if strings.TrimSpace(text) == "" {
		return nil, true
	}
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		m := codexHeader().FindStringSubmatch(pair)
		if m == nil {
			return nil, false
		}
		pairs[m[1]] = m[2]
	}
	return pairs, true
}

// codexHTTP matches an exporter in the form that Codex's manual shows.
func codexHTTP() *regexp.Regexp {
	return regexp.MustCompile(`^\{\s*"?otlp-http"?\s*=\s*\{(.*)\}\s*\}$`)
}

// codexExporter reads the exporter of log events from a TOML file. table is the inside of
// the exporter's otlp-http table, or "" if the exporter is `none`. set is false if the
// file sets no exporter. ok is false for a form that is not supported.
func codexExporter(text string) (table string, set, ok bool) {
	for key, val := range tomlPairs(text) {
		switch {
		case key == "otel.exporter" && val == `"none"`:
			return "", true, true
		case key == "otel.exporter":
			m := codexHTTP().FindStringSubmatch(val)
			if m == nil || strings.Contains(m[1], "tls") || strings.ContainsAny(m[1], "#'") ||
				len(codexEndpoint().FindAllString(m[1], -1)) != 1 {
				return "", true, false
			}
			return m[1], true, true
		case key == "otel" && val != "", strings.HasPrefix(key, "otel.exporter."):
			return "", true, false
		}
	}
	return "", false, false
}
