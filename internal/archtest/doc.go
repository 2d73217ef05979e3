// Package archtest tests the structure of the program: which package imports
// which, which packages are pure, where the words of harnesses and of other
// protocols may be written, that no client is named, and that package variables
// hold no state. It contains tests only, which check syntax and text but no types. It
// allows no exceptions for single lines: fix the line, or change the rule for all files.
//
//	go test ./internal/archtest
//
// Edit the lists in lists_test.go. The rules are in rules_test.go; each must find
// the planted faults in archtest_test.go. The rules about clients are in
// boundary_test.go, because they read tests too.
package archtest
