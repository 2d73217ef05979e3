//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lifeloop/canon"
	"lifeloop/lifeloop"
)

// A result is the output and the exit code of a command.
type result struct {
	code           int
	stdout, stderr string
}

// envelope runs `lifeloop-wrap envelope ARG…` in this process.
func envelope(doc []byte, args ...string) result {
	g := &globals{}
	root := newRoot(g, false)
	args = append([]string{"envelope"}, args...)
	var stdout, stderr strings.Builder
	root.SetArgs(args)
	root.SetIn(bytes.NewReader(doc))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := g.settle(root.Execute(), args, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// For every mutated document, the command and the package agree: the exit code is 0 if
// the package accepts the document, otherwise 1. By turns, a document is validated with
// output as text, validated with output as JSON, or rewritten.
func TestEnvelopeValidatesMutants(t *testing.T) {
	t.Parallel()
	form := []func(kind string, doc []byte, want int) (code int, problem string){validates, validatesAsJSON, echoes}
	for _, kind := range lifeloop.Kinds() {
		t.Run(kind, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "lifeloop", "testdata", "mutated", kind+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			docs := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
			if len(docs) != 300 {
				t.Fatalf("%d documents, want 300", len(docs))
			}
			codes := map[int]int{}
			for i, doc := range docs {
				want := 0
				if _, err := lifeloop.Echo(kind, doc); err != nil {
					want = 1
				}
				code, problem := form[i%len(form)](kind, doc, want)
				codes[code]++
				if code != want || problem != "" {
					t.Errorf("line %d, exit code %d, want %d: %s\n%s", i+1, code, want, problem, doc)
				}
			}
			if codes[0] == 0 || codes[1] == 0 {
				t.Errorf("all documents have the same exit code: %v", codes)
			}
		})
	}
}

func validates(kind string, doc []byte, want int) (code int, problem string) {
	plain := envelope(doc, "validate", kind)
	if (plain.stdout == "valid\n") != (want == 0) || strings.Count("\n"+plain.stderr, "\nwarning: ") != len(lifeloop.Unknown(kind, doc)) ||
		strings.Contains(plain.stderr, "lifeloop-wrap: ") != (want == 1) {
		problem = fmt.Sprintf("%+v", plain)
	}
	return plain.code, problem
}

func validatesAsJSON(kind string, doc []byte, want int) (code int, problem string) {
	var verdict struct {
		Valid            bool
		Errors, Warnings []lifeloop.Problem
	}
	asJSON := envelope(doc, "validate", kind, "-", "--json")
	if err := json.Unmarshal([]byte(asJSON.stdout), &verdict); err != nil || verdict.Valid != (want == 0) || (len(verdict.Errors) == 0) != (want == 0) ||
		len(verdict.Warnings) != len(lifeloop.Unknown(kind, doc)) || asJSON.stderr != "" {
		problem = fmt.Sprintf("%v: %+v", err, asJSON)
	}
	return asJSON.code, problem
}

func echoes(kind string, doc []byte, want int) (code int, problem string) {
	again := envelope(doc, "echo", kind)
	if want == 0 && bytes.Contains(doc, []byte("1e400")) && again.code == 1 {
		// A large number is valid, but RFC 8785 can only write doubles.
		if !strings.Contains(again.stderr, "the "+kind+" is valid but cannot be written as canonical JSON") {
			problem = fmt.Sprintf("%+v", again)
		}
		return want, problem
	}
	if (again.stdout == "") != (want == 1) || (again.stderr == "") != (want == 0) {
		problem = fmt.Sprintf("%+v", again)
	}
	return again.code, problem
}

// The command rewrites every example of the contract as canonical JSON, and loses no
// member except those that are null or an empty list.
func TestEnvelopeEchoesTheContractsExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "lifeloop", "testdata", "contract", "*.json"))
	if err != nil || len(files) < len(lifeloop.Kinds()) {
		t.Fatalf("%d examples of %d kinds (%v)", len(files), len(lifeloop.Kinds()), err)
	}
	for _, file := range files {
		kind, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "_renewal")
		t.Run(filepath.Base(file), func(t *testing.T) {
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := envelope(doc, "validate", kind, file); got != (result{0, "valid\n", ""}) {
				t.Fatalf("validate: %+v", got)
			}
			once := envelope(doc, "echo", kind, file)
			if once.code != 0 || once.stderr != "" {
				t.Fatalf("echo: %+v", once)
			}
			if canonical, err := canon.Transform([]byte(once.stdout)); err != nil || string(canonical)+"\n" != once.stdout {
				t.Errorf("not canonical (%v): %s", err, once.stdout)
			}
			if twice := envelope([]byte(once.stdout), "echo", kind); twice != once {
				t.Errorf("rewritten once and twice:\n%+v\n%+v", once, twice)
			}
			if got, want := substance(t, []byte(once.stdout)), substance(t, doc); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// substance is a document without the members that hold null or an empty list.
func substance(t *testing.T, doc []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				strip(item)
			}
		case map[string]any:
			for name, value := range v {
				strip(value)
				if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
					delete(v, name)
				}
			}
		}
	}
	strip(v)
	return v
}
