// Package archtest tests the structure of the program: which package imports
// which, which packages have no side effects, which packages may contain the names of
// harnesses and the words of other protocols, that no client is named, and that package
// variables hold no state. It contains tests only, which check syntax and text but no
// types. It allows no exceptions for single lines: fix the line, or change the rule for
// all files.
//
//	go test ./internal/archtest
//
// Edit the lists in lists_test.go. The table of rules is in rules_test.go. Each rule must
// find the faults that archtest_test.go plants for that rule. The rules that read tests
// too are not in the table: boundary_test.go has those about clients, and idiom_test.go,
// shadow_test.go and size_test.go have one rule each.
package archtest
