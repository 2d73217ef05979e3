package main

import (
	"crypto/ed25519"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"lifeloop/evidence"
	"lifeloop/evidence/page"
	"lifeloop/internal/durable"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
)

// exportation holds the flags of evidence export.
type exportation struct {
	kind, packType, out, key string
	raw                      bool
}

func exportCmd(g *globals) *cobra.Command {
	var e exportation
	cmd := g.onSession(&cobra.Command{
		Use: "export SESSION --kind KIND --out PATH", Short: "Write a session's evidence: runpack, pack, chain, trace or html",
		Long: `export makes evidence, which others can verify, from the ledger of a session.
The same ledger gives the same bytes. Acts are the launches and renewals of the
harness, payloads and, under a policy, the tool calls of the harness.

  runpack  a file: the acts of the session with their results, its timeline, and
           references to its receipts and its ledger
  pack     a file: a runpack with --pack-type run, or the states and checkpoints
           of the session with --pack-type job
  chain    a folder: a journal of the acts, the chain of the checkpoints that
           cover them, and a runpack for each checkpoint
  trace    a folder with a record for each decision of the gate; it needs a key
  html     a page for people: turns, context, receipts, and the result of
           verifying the session's runpack

Without --key nothing is signed, and a reader cannot know who made the evidence.
An existing file is replaced only if it is empty or is evidence too.`,
	}, func(cmd *cobra.Command, st store.Store, id string) error { return g.export(cmd, st, id, e) })
	f := cmd.Flags()
	f.StringVar(&e.kind, "kind", "", "what to write: runpack, pack, chain, trace or html")
	f.StringVar(&e.packType, "pack-type", "run", "the type of --kind pack: run or job")
	f.StringVar(&e.out, "out", "", "`PATH` to write: a file; for chain and trace a folder")
	f.StringVar(&e.key, "key", "", "`FILE` with the private key that signs")
	f.BoolVar(&e.raw, "raw", false, "write values of acts and results, not only digests")
	return cmd
}

func (g *globals) export(cmd *cobra.Command, st store.Store, id string, e exportation) error {
	switch {
	case e.kind == "":
		return usage("evidence export needs --kind: runpack, pack, chain, trace or html")
	case !slices.Contains([]string{"runpack", "pack", "chain", "trace", "html"}, e.kind):
		return usage("--kind %s: want runpack, pack, chain, trace or html", e.kind)
	case e.packType != "run" && e.packType != "job":
		return usage("--pack-type %s: want run or job", e.packType)
	case e.out == "":
		return usage("evidence export needs --out")
	case e.kind == "trace" && e.key == "":
		return usage("evidence export --kind trace needs --key: a trace is verified by its signature")
	case e.kind != "pack" && cmd.Flags().Changed("pack-type"):
		return usage("--pack-type applies to --kind pack only, not to %s", e.kind)
	case e.raw && e.kind != "runpack" && (e.kind != "pack" || e.packType == "job"):
		return usage("--raw applies only to --kind runpack and to --kind pack --pack-type run: no other kind can contain the recorded values")
	case e.out == "-":
		return usage("--out -: evidence is not printed; name a file or a folder (./- is a file with that name)")
	}
	var key ed25519.PrivateKey
	if e.key != "" {
		var err error
		if key, err = readPrivateKey(cmd, e.key); err != nil {
			return err
		}
	}
	shown := page.New()
	x, checked, err := readExport(st, id, shown.Apply)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	if e.kind == "html" {
		files[e.out], err = pageOf(x, shown, checked, key)
	} else {
		files, err = exported(x, e, key)
	}
	if err != nil {
		return cannotWrite(id, err)
	}
	written := slices.Sorted(maps.Keys(files))
	if err := replaceable(st, id, e, written); err != nil {
		return err
	}
	if e.folder() {
		if err := durable.Mkdir(e.out); err != nil {
			return cannotWrite(id, err)
		}
	}
	for _, name := range written {
		if err := durable.WriteFile(name, files[name], 0o600); err != nil {
			return cannotWrite(id, err)
		}
	}
	text := ""
	for _, name := range written {
		text += name + "\n"
	}
	return g.print(cmd, map[string]any{"ok": true, "session_id": id, "kind": e.kind, "signed": key != nil, "files": written}, text)
}

// folder reports whether the export writes a folder. Otherwise it writes one file.
func (e exportation) folder() bool { return e.kind == "chain" || e.kind == "trace" }

func cannotWrite(id string, err error) error {
	class := lifeloop.InternalError
	if errors.Is(err, evidence.ErrNoCheckpoint) || errors.Is(err, evidence.ErrNotBegun) {
		class = lifeloop.StateConflict
	}
	f := no(class, "cannot write the evidence of session %s: %v", id, err)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return f.withHint("--out must be a path in a folder that exists and that you may write to")
	}
	return f
}

// exported returns the files of an export, by their paths.
func exported(x *evidence.Export, e exportation, key ed25519.PrivateKey) (map[string][]byte, error) {
	var data []byte
	var err error
	switch {
	case e.folder():
		write := x.Chain
		if e.kind == "trace" {
			write = x.Traces
		}
		files, err := write(key)
		placed := map[string][]byte{}
		for name, data := range files {
			placed[filepath.Join(e.out, name)] = data
		}
		return placed, err
	case e.kind == "runpack":
		data, err = x.Runpack(key, e.raw)
	case e.packType == "job":
		data, err = x.JobPack(key)
	default:
		data, err = x.RunPack(key, e.raw)
	}
	return map[string][]byte{e.out: data}, err
}

// pageOf returns the HTML page of a session. The page shows the result of verifying the
// session's runpack, which the command "evidence export --kind runpack" writes.
func pageOf(x *evidence.Export, shown *page.Page, checked page.Checked, key ed25519.PrivateKey) ([]byte, error) {
	data, err := x.Runpack(key, false)
	if err != nil {
		return nil, err
	}
	var o evidence.Options
	if key != nil {
		o.PublicKey = key.Public().(ed25519.PublicKey)
	}
	checked.Report = evidence.Verify(evidence.RunpackKind, data, o)
	return shown.HTML(checked), nil
}

// readExport reads the ledger of a session into an Export, and calls apply for each
// entry. An unfinished last line, after a crash, is left out; any other damage is an
// error.
func readExport(st store.Store, id string, apply func(kernel.Entry)) (*evidence.Export, page.Checked, error) {
	x, checked := evidence.NewExport(), page.Checked{}
	for e, err := range ledger.Read(string(st.Folder(id))) {
		if errors.Is(err, ledger.ErrTornTail) {
			checked.Torn = true
			break
		}
		var f kernel.Fact
		if err == nil {
			f, err = kernel.Decode(e.Kind, e.Body)
		}
		if err != nil {
			return nil, checked, no(lifeloop.StateConflict, "session %s: %v", id, err).
				withHint("lifeloop-wrap ledger verify %s shows the damage; no evidence can be made from a damaged ledger", id)
		}
		entry := kernel.Entry{Seq: e.Seq, At: e.At, Fact: f}
		x.Apply(entry, string(e.Digest))
		apply(entry)
		checked.Entries, checked.Head = e.Seq, string(e.Digest)
	}
	return x, checked, nil
}
