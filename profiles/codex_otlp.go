package profiles

import (
	"path/filepath"
	"regexp"
	"strings"

	"lifeloop/telemetry/codex"
)

// codexExport says by which override Codex exports its log events to us. The
// endpoint is used as it stands. An exporter of the user's keeps its format and
// gets our address; its headers, which are secrets and would show on a command
// line, we put on ourselves. Where it is written in a way that is not
// understood, or cannot be passed on, theirs is left alone.
func codexExport(line codexLine, h Host) (override string, x Export, reason string) {
	if line.overrides("otel") {
		return "", x, "the command line sets otel itself"
	}
	ours := h.OTLP + "/v1/logs"
	table := "endpoint=" + tomlString(ours) + `,protocol="json"`
	var files []string
	if dir := h.home("CODEX_HOME", ".codex"); dir != "" && !line.has("--ignore-user-config") {
		files = append(files, filepath.Join(dir, "config.toml"))
		if name := line.seen["--profile"]; name != "" {
			files = append(files, filepath.Join(dir, name+".config.toml"))
		}
	}
	files = append(files, filepath.Join(h.Dir, ".codex", "config.toml"))
	found := 0
	for _, path := range files {
		data, _ := h.read(path)
		theirs, said, ok := codexExporter(string(data))
		if !said {
			continue
		}
		if found++; !ok || found > 1 {
			return "", x, "the user's own otel settings are not understood"
		}
		if theirs == "" {
			continue // `none`
		}
		var headers string
		if at := codexHeaders().FindStringSubmatchIndex(theirs); at != nil {
			headers, theirs = theirs[at[2]:at[3]], theirs[:at[0]]+theirs[at[1]:]
		}
		if x.Headers, ok = codexHeaderPairs(headers); !ok || strings.ContainsAny(theirs, "{}") {
			return "", Export{}, "the user's own otel settings are not understood"
		}
		endpoint := codexEndpoint().FindStringSubmatchIndex(theirs)
		x.Chain = theirs[endpoint[2]:endpoint[3]]
		table = strings.TrimSpace(theirs[:endpoint[2]] + ours + theirs[endpoint[3]:])
	}
	x.Decoder = codex.OTLP
	return "otel.exporter={otlp-http={" + table + "}}", x, ""
}

// The patterns are made when they are asked for: made at the start of the
// program, they would be paid for by every hook.

// codexEndpoint finds the endpoint in the table of an exporter, where it is a
// plain string.
func codexEndpoint() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[,{\s])endpoint\s*=\s*"([^"\\]+)"`)
}

// codexHeaders finds the headers behind the first member. Before it they are
// one of the ways that are not understood.
func codexHeaders() *regexp.Regexp {
	return regexp.MustCompile(`,\s*headers\s*=\s*\{([^{}]*)\}`)
}

func codexHeader() *regexp.Regexp {
	return regexp.MustCompile(`^\s*"?([A-Za-z0-9_-]+)"?\s*=\s*"([^"\\]*)"\s*$`)
}

// codexHeaderPairs reads the inside of a table of headers.
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

// codexHTTP is an exporter in the way in which Codex's manual writes it.
func codexHTTP() *regexp.Regexp {
	return regexp.MustCompile(`^\{\s*"?otlp-http"?\s*=\s*\{(.*)\}\s*\}$`)
}

// codexExporter looks in a TOML file for the exporter of log events: the inside
// of its otlp-http table, or "" where it is none. It is no TOML reader: said
// and not ok is what it does not understand.
func codexExporter(text string) (table string, said, ok bool) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(strings.TrimSpace(strings.SplitN(line, "#", 2)[0]), "[] \t")
			if strings.HasPrefix(section, "otel.exporter") {
				return "", true, false
			}
			continue
		}
		key, val, isPair := strings.Cut(line, "=")
		if !isPair || strings.HasPrefix(line, "#") {
			continue
		}
		key = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(key), `"`, ""), " ", "")
		if section != "" {
			key = section + "." + key
		}
		switch {
		case key == "otel.exporter":
		case key == "otel", strings.HasPrefix(key, "otel.exporter."):
			return "", true, false
		default:
			continue
		}
		val = strings.TrimSpace(val)
		if val == `"none"` {
			return "", true, true
		}
		m := codexHTTP().FindStringSubmatch(val)
		if m == nil || strings.Contains(m[1], "tls") || strings.ContainsAny(m[1], "#'") ||
			len(codexEndpoint().FindAllString(m[1], -1)) != 1 {
			return "", true, false
		}
		return m[1], true, true
	}
	return "", false, false
}
