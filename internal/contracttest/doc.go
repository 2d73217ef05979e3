// Package contracttest keeps documents true: its tests fail when a table under
// docs/contract names a test that does not exist, when a version of the contract
// has no tombstone, when a scenario of the L0 lifecycle is neither written down
// nor left out with a reason, when a comment names a ruling that
// docs/DECISIONS.md does not have, and when the adapter that docs/adding-an-adapter.md
// adds does not build, or tells other events than it says. It has no code of its
// own and says nothing about whether the named tests pass; `go test ./...` does.
//
//	go test ./internal/contracttest
package contracttest
