// Package contracttest tests the documentation. Its tests fail, for example, when
//
//   - a table in docs/contract names a test that does not exist,
//   - an older version of the contract has no file in docs/tombstones that says what changed,
//   - a scenario of the L0 lifecycle (docs/contract/l0.md) is neither in testdata/l0 nor
//     excluded with a reason,
//   - a comment or a document names a ruling that docs/DECISIONS.md does not have,
//   - the adapter of docs/adding-an-adapter.md does not build, or does not emit the events
//     that are shown there.
//
// It contains tests only. It does not check that the named tests pass; that is
// what `go test ./...` does.
//
//	go test ./internal/contracttest
package contracttest
