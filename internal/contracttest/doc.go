// Package contracttest keeps the tables under docs/contract true: its test
// fails when a table names a test that does not exist. It has no code of its
// own and says nothing about whether the tests pass; `go test ./...` does.
//
//	go test ./internal/contracttest
package contracttest
