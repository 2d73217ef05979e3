// Package starter has a policy of the gate to start with, and cases that show what it
// decides.
//
//	os.WriteFile("policy.yaml", []byte(starter.Policy()), 0o644)
package starter

import _ "embed"

//go:embed policy.yaml
var policy string

//go:embed cases.yaml
var cases string

// Policy returns a policy that denies writes outside of the workspace, secrets, and
// settings of the harness; it requires an approval for destructive commands and
// for those whose effect cannot be known before they run; it allows the rest.
func Policy() string { return policy }

// Cases returns test cases for `policy test` that show what the policy decides.
func Cases() string { return cases }
