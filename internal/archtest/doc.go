// Package archtest keeps the shape of the program: who may import whom, which
// packages have no world in them, which words are spoken where, that no client
// is known, and that no state hides in package variables. It has no code of
// its own, looks at syntax only, and exempts no line: what breaks a rule is
// mended, or the rule is changed for everybody.
//
//	go test ./internal/archtest
//
// The lists to edit are in lists_test.go, the rules in rules_test.go, each with
// the planted faults that it must find in archtest_test.go. The boundary to
// clients, which tests keep as well, is in boundary_test.go.
package archtest
