// Package starter has a first policy for new users of the gate, and test cases that show
// what this policy decides.
//
//	os.WriteFile("policy.yaml", []byte(starter.Policy()), 0o644)
package starter

import _ "embed"

//go:embed policy.yaml
var policy string

//go:embed cases.yaml
var cases string

// Policy returns a policy that denies access to secrets, changes to the settings of the
// harness, and writes outside of the workspace. The policy requires an approval for
// destructive commands and for commands whose effect is not known before they run. The
// policy allows the rest.
func Policy() string { return policy }

// Cases returns test cases for `policy test` that show what the policy decides.
func Cases() string { return cases }
