package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/evidence"
	"lifeloop/evidence/sign"
	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// exitRefused is the exit code of a failed verification, and of diff for files that
// differ. For a file that cannot be read as evidence, or that needs a public key to be
// verified, the code is exitNotEvaluable. The public reference implementation, gait
// (see package evidence), uses the same codes.
const exitRefused = 2

// verification holds the flags of evidence verify.
type verification struct {
	kind, key, anchor      string
	signed, strict, compat bool
}

func verifyCmd(g *globals) *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use: "verify PATH", Short: "Verify a runpack, pack, session chain, journal or trace", Args: cobra.ExactArgs(1),
		Long: `verify checks an evidence file: digests, links, signatures, and the form and
content of each file in it. It also prints what the verification does not prove.
The exit code is 0 if the verification succeeded, 2 if it failed, or 6 if the
file cannot be read as evidence or needs --public-key to be verified. KIND is
runpack, pack, session_chain, session_journal or trace.

A session chain or a journal names its runpacks. verify reads the runpacks from
the folder of the chain or journal. With --anchor FILE a chain or a journal must
contain each checkpoint of its session that FILE names. That proves the chain or
journal up to the newest of these checkpoints; what follows that checkpoint is
not proven. --compat gives the verdicts of gait, the public reference
implementation of these formats.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.strict && v.compat {
				return usage("--strict cannot be used with --compat")
			}
			return g.verifyEvidence(cmd, args[0], v)
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.kind, "kind", "", "`KIND` of evidence (default detected from the content)")
	f.StringVar(&v.key, "public-key", "", "`FILE` with the public key of the signer")
	f.BoolVar(&v.signed, "require-signature", false, "refuse unsigned evidence and unsigned proof records")
	f.BoolVar(&v.strict, "strict", false, "refuse misleading files that gait accepts (default)")
	f.BoolVar(&v.compat, "compat", false, "accept and refuse the same files as gait")
	f.StringVar(&v.anchor, "anchor", "", "`FILE` with output of lifeloop-wrap evidence anchor")
	return cmd
}

func (g *globals) verifyEvidence(cmd *cobra.Command, path string, v verification) error {
	data, err := readArtifact(path)
	if err != nil {
		return err
	}
	o := evidence.Options{Compat: v.compat, RequireSignature: v.signed, Beside: func(name string) ([]byte, error) {
		if v.compat {
			return readArtifact(name) // like gait, resolve the path against the working directory
		}
		return readArtifact(filepath.Join(filepath.Dir(path), filepath.FromSlash(name)))
	}}
	if v.key != "" {
		text, err := readInput(cmd, v.key)
		if err == nil {
			o.PublicKey, err = sign.ParsePublic(text)
		}
		if err != nil {
			return notEvaluable("public key %s: %v", v.key, err).withHint("lifeloop-wrap evidence key new FILE writes the public key to FILE.pub")
		}
	}
	if v.anchor != "" {
		text, err := readInput(cmd, v.anchor)
		if err == nil {
			o.Anchors, err = evidence.ParseAnchors(text)
		}
		if err != nil {
			return notEvaluable("anchors %s: %v", v.anchor, err).withHint("lifeloop-wrap evidence anchor SESSION prints anchors, one on each line")
		}
	}
	kind := evidence.Kind(v.kind)
	if kind != "" && !slices.Contains(evidence.Kinds(), kind) {
		return usage("--kind %s: want one of %v", v.kind, evidence.Kinds())
	}
	if kind == "" {
		if kind = evidence.Detect(data); kind == "" {
			return notEvaluable("%s is not a known kind of evidence", path).withHint("with --kind KIND, verify shows why the file is not of that kind")
		}
	}
	if v.anchor != "" && !kind.Anchored() {
		return usage("--anchor does not apply to a %s, which has no checkpoint", kind).
			withHint("lifeloop-wrap evidence export SESSION --kind chain --out DIR writes a chain; verify the file %s in DIR", evidence.ChainFile)
	}
	r := evidence.Verify(kind, data, o)
	if err := g.print(cmd, r, reportText(path, r)); err != nil {
		return err
	}
	switch {
	case r.Unreadable:
		return exitCode(exitNotEvaluable)
	case !r.OK:
		return exitCode(exitRefused)
	}
	return nil
}

func reportText(path string, r evidence.Report) string {
	var b strings.Builder
	word := "ok"
	if !r.OK {
		word = "FAILED"
	}
	fmt.Fprintf(&b, "%s: %s %s (%s): parts checked: %d, signature %s\n", word, r.Kind, vt.Plain(path), r.Mode, r.Checked, r.SignatureStatus)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  %s: %s\n", p.Code, vt.Plain(p.String()))
	}
	if r.OK {
		fmt.Fprintf(&b, "id %s, digest %s\n", vt.Plain(r.ID), vt.Plain(r.Digest))
	}
	b.WriteString("not proven:\n")
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", vt.Plain(n))
	}
	return b.String()
}

// maxArtifact is the size of the largest evidence file that is read, in bytes.
const maxArtifact = 256 << 20

func readArtifact(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notEvaluable("cannot read %s: there is no such file", path).
			withHint("lifeloop-wrap evidence export SESSION --kind runpack --out FILE writes a file that can be verified")
	case err != nil:
		return nil, unreadable(path, err)
	case info.IsDir():
		return nil, notEvaluable("cannot read %s: it is a folder", path).
			withHint("name a file in the folder: %s or %s if the folder has a chain, otherwise one of the traces", evidence.ChainFile, evidence.JournalFile)
	case !info.Mode().IsRegular() || info.Size() > maxArtifact:
		return nil, notEvaluable("cannot read %s: it is not a regular file of at most %d MiB", path, maxArtifact>>20).withHint("name a file of evidence")
	}
	data, err := durable.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

func unreadable(path string, err error) error {
	return notEvaluable("cannot read %s: %v", path, err).withHint("check the path and the permissions of the file")
}

func inspectCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "inspect PATH", Short: "Print the JSON records in an evidence file, unverified", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readArtifact(args[0])
			if err != nil {
				return err
			}
			docs, err := evidence.Inspect(filepath.Base(args[0]), data)
			if err != nil {
				return notEvaluable("cannot inspect %s: %v", args[0], err).withHint("lifeloop-wrap evidence verify %s shows what is wrong with it", args[0])
			}
			var b bytes.Buffer
			for _, d := range docs {
				fmt.Fprintf(&b, "%s  %d bytes  sha256 %s\n", vt.Plain(d.Name), d.Bytes, d.SHA256)
				for _, record := range d.Records {
					b.WriteString("  ")
					if err := json.Indent(&b, record, "  ", "  "); err != nil {
						return no(lifeloop.InternalError, "%v", err)
					}
					b.WriteByte('\n')
				}
			}
			return g.print(cmd, map[string]any{"kind": evidence.Detect(data), "documents": docs}, b.String())
		},
	}
}

func diffCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "diff A B", Short: "List where two evidence files differ", Args: cobra.ExactArgs(2),
		Long: "diff compares two evidence files, record by record and member by member. It does\nnot verify them. The exit code is 0 if they are equal, and 2 if they differ.",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := readArtifact(args[0])
			if err != nil {
				return err
			}
			b, err := readArtifact(args[1])
			if err != nil {
				return err
			}
			list, err := evidence.Diff(a, b)
			if err != nil {
				return notEvaluable("cannot compare %s and %s: %v", args[0], args[1], err).withHint("lifeloop-wrap evidence verify FILE shows what is wrong with a file")
			}
			var text strings.Builder
			for _, d := range list {
				fmt.Fprintf(&text, "%s\n  - %s\n  + %s\n", vt.Plain(d.Path), vt.Plain(d.Left), vt.Plain(d.Right))
			}
			if err := g.print(cmd, map[string]any{"equal": len(list) == 0, "differences": list}, text.String()); err != nil || len(list) == 0 {
				return err
			}
			return exitCode(exitRefused)
		},
	}
}
