package hosts

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"lifeloop/profiles"
)

// withConsent returns the installation of small with its first two hooks only, for a
// harness that requires consent.
func withConsent() profiles.Installation {
	in := small()
	in.Trust = &profiles.Trust{
		Path: "/home/dev/config.toml", Table: []string{"hooks", "state"}, Member: "trusted_hash", Prefix: in.Path + ":",
		Key: func(event string, group, handler int) string {
			return fmt.Sprintf("%s:%s:%d:%d", in.Path, strings.ToLower(event), group, handler)
		},
		Value: func(h profiles.InstalledHook) string { return fmt.Sprintf("sha256:%s-%d", h.Command, h.Timeout) },
	}
	in.Hooks = in.Hooks[:2]
	return in
}

// TestTrust runs testdata/trust.txt. The input of a command is a trust file, its
// output is the file after the command. The settings have one hook of the user,
// for the event Start.
//
//	apply     add consent for our hooks, and check that it can be removed
//	remove    remove it
//	scan      list the statements
func TestTrust(t *testing.T) {
	datadriven.RunTest(t, "testdata/trust.txt", func(t *testing.T, d *datadriven.TestData) string {
		in := withConsent()
		theirs := `{"hooks":{"Start":[{"hooks":[{"type":"command","command":"mine"}]}]}}`
		settings, _, err := withHooks(&theirs, in, note{})
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		text := strings.ReplaceAll(d.Input+"\n", "␍", "\r")
		text = strings.TrimSuffix(text, "⏎\n")
		show := func(text string) string {
			text = strings.ReplaceAll(text, "\r", "␍")
			if !strings.HasSuffix(text, "\n") {
				text += "⏎\n"
			}
			return text
		}
		switch d.Cmd {
		case "scan":
			found, flaw := scan(text)
			if flaw != nil {
				return flaw.Error() + "\n"
			}
			var b strings.Builder
			for _, st := range found {
				fmt.Fprintf(&b, "%t %t %q %q\n", st.header, st.list, st.path, text[st.value[0]:st.value[1]])
			}
			return b.String()
		case "apply":
			out, now, err := withTrust(&text, &settings, settings, in, note{})
			if err != nil {
				return err.Error() + "\n"
			}
			if r, flaw := inspect(&settings, &out, in); flaw != nil || r.State != Installed {
				d.Fatalf(t, "status after apply: %v, %v:\n%s", r, flaw, out)
			}
			back, flaw := withoutTrust(out, &settings, in, now)
			if flaw != nil || !d.HasArg("was-there") && *back != text {
				d.Fatalf(t, "remove does not undo apply, %v:\n%s", flaw, *back)
			}
			return show(out)
		case "remove":
			out, flaw := withoutTrust(text, &settings, in, note{})
			if flaw != nil {
				return flaw.Error() + "\n"
			}
			return show(*out)
		}
		d.Fatalf(t, "no such command")
		return ""
	})
}

// TestTrustLaws checks four laws with random statements. None of the user's
// statements is lost or moves. Removing undoes adding. Adding twice equals adding
// once. A table that the user adds after ours stays.
func TestTrustLaws(t *testing.T) {
	in := withConsent()
	settings, _, err := withHooks(nil, in, note{})
	if err != nil {
		t.Fatal(err)
	}
	anything := rapid.SampledFrom([]string{
		"a = 1", "  model = \"x\" # why", "[t]", "[t.u]", "[[list]]", "[ hooks ]", "[hooks.state]", "[[hooks.Stop]]", "# [hooks.state.\"x\"]",
		"b = [1, # [no]\n  2,\n]", "c = \"\"\"\n[hooks.state]\n\"\"\"\"\"", "d = '''\n'''", "e = { x = { y = \"}\" } }", "", "", " \t",
		"[hooks.state.\"/elsewhere:start:0:0\"]\ntrusted_hash = \"sha256:OURS Start-5\"", "\"quo\\\"ted\".k = 1979-05-27 07:32:00",
		"[hooks.state.\"/home/dev/settings.json:end:0:0\"]\nenabled = false\ntrusted_hash = \"sha256:theirs\"", "f = 'C:\\'", "g = \"\\\\\"",
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(anything, 0, 8).Draw(t, "statements")
		nl := rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "line end")
		text := strings.ReplaceAll(strings.Join(list, "\n"), "\n", nl)
		if rapid.IntRange(0, 2).Draw(t, "end") > 0 && text != "" {
			text += nl
		}
		before, flaw := scan(text)
		if flaw != nil {
			t.Fatalf("%v in %q", flaw, text)
		}
		out, now, err := withTrust(&text, nil, settings, in, note{})
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		if again, _, err := withTrust(&out, &settings, settings, in, now); err != nil || again != out {
			t.Fatalf("adding twice changed the file, %v:\n%q\n%q", err, out, again)
		}
		paths := func(list []statement) (paths [][]string) {
			for _, st := range list {
				paths = append(paths, st.path)
			}
			return paths
		}
		after, _ := scan(out)
		if !reflect.DeepEqual(paths(after[:len(before)]), paths(before)) || !strings.HasPrefix(out, text) {
			t.Fatalf("the earlier text is no longer at the beginning:\n%q\n%q", text, out)
		}
		if back, flaw := withoutTrust(out, &settings, in, now); flaw != nil || *back != text {
			t.Fatalf("removing does not undo adding, %v:\n%q\n%q", flaw, text, *back)
		}
		if text == "" || !strings.HasSuffix(text, "\n") {
			return
		}
		late := nl + "[late]" + nl + "x = 1" + nl
		later := out + late
		if back, flaw := withoutTrust(later, &settings, in, now); flaw != nil || *back != text+late {
			t.Fatalf("removing does not undo adding, %v:\n%q\n%q", flaw, text+late, *back)
		}
	})
}

// FuzzScan checks that statements do not overlap, and that removing undoes adding.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{"a=1", "[a]\nb=\"\"\"x\"\"\"\"\n", "x = [1,\n2]", "'a'.\"b\".c = {d=1}", "[[a.b]]\r\n", "a = '''", "a = \"\\u00e9\" # x"} {
		f.Add(seed)
	}
	in := withConsent()
	settings, _, err := withHooks(nil, in, note{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, flaw := scan(text)
		if flaw != nil {
			return
		}
		at := 0
		for _, st := range found {
			if st.start < at || st.end <= st.start || st.end > len(text) {
				t.Fatalf("%q: %v", text, found)
			}
			at = st.end
		}
		out, now, err := withTrust(&text, nil, settings, in, note{})
		if err != nil {
			return
		}
		base, _ := withdraw(text, in.Trust, now.Values, nil)
		if back, flaw := withoutTrust(out, &settings, in, now); flaw != nil || *back != base {
			t.Fatalf("%v: %q became %q", flaw, base, *back)
		}
	})
}

func TestEscapesInKeys(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: "plain", `\b\t\n\f\r\e\"\\`: "\b\t\n\f\r\x1b\"\\", `\u00e9\U0001F600\x41`: "é😀A",
	} {
		found, flaw := scan(`"` + in + `" = 1`)
		if flaw != nil || !reflect.DeepEqual(found[0].path, []string{want}) {
			t.Errorf("%s: %v, %v", in, found, flaw)
		}
	}
	for _, in := range []string{`\q`, `\`, `\u12`, `\ud800`, `\x1`, `\U0011FFFF`} {
		if found, flaw := scan(`"` + in + `" = 1`); flaw == nil {
			t.Errorf("%s was read as %v", in, found)
		}
	}
	if got, want := basic("\x7f\"\\\n\u2028<"), "\"\\u007f\\\"\\\\\\n\u2028<\""; got != want {
		t.Errorf("spelled %s, want %s", got, want)
	}
}
