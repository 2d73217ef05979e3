package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/trust"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

func trustCmd(g *globals) *cobra.Command {
	var list, revoke bool
	cmd := &cobra.Command{
		Use:   "trust [FILE] | trust --revoke [FILE] | trust --list",
		Short: "Trust a project's " + config.ProjectFile + ", which can name programs to run",
		Long: `trust records the path and the digest of FILE, a project's ` + config.ProjectFile + `, and prints
the programs that it names. Without FILE, the nearest one in this folder or above is
used. Nothing in a file is used before it is trusted, and after a change of the file
nothing is used until it is trusted again. The content of the programs is not
recorded, so a change of a program is not detected.`,
		Example: `  lifeloop-wrap trust                    trust the file of this project (read it before)
  lifeloop-wrap trust --list             print the trusted files
  lifeloop-wrap trust --revoke           stop trusting the file of this project`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := g.truster(cmd)
			switch {
			case err != nil:
				return err
			case list && (revoke || len(args) > 0):
				return usage("--list cannot be used with --revoke or FILE")
			case list:
				return t.list()
			}
			path, err := t.file(args)
			if err != nil {
				return err
			}
			if revoke {
				return t.revoke(path)
			}
			return t.add(path)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "print the trusted files")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "remove the record of FILE")
	return cmd
}

// A truster serves one run of the command "trust".
type truster struct {
	g       *globals
	cmd     *cobra.Command
	records trust.Store
	dir     string
}

// truster opens the trust records. The project's file may be invalid, so truster does not
// read that file.
func (g *globals) truster(cmd *cobra.Command) (*truster, error) {
	if g.config != "" {
		return nil, usage("trust: a file named by --config needs no trust")
	}
	t := &truster{g: g, cmd: cmd}
	_, _, err := g.loadWith(cmd, func(dir, stateDir string) trust.File {
		t.dir, t.records = dir, trust.Open(stateDir)
		return trust.File{}
	})
	return t, err
}

// file returns the path of the project file that the arguments name, or else of the
// nearest one.
func (t *truster) file(args []string) (string, error) {
	if len(args) == 0 {
		if path := trust.Nearest(t.dir, os.Getenv("HOME"), config.ProjectFile); path != "" {
			return path, nil
		}
		return "", no(lifeloop.InvalidRequest, "trust: there is no %s in %s or above it", config.ProjectFile, vt.Plain(t.dir)).
			withHint("the search ends at the home folder, and where the owner of the folders changes")
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return "", err
	}
	if filepath.Base(path) != config.ProjectFile {
		return "", usage("trust: %s is not called %s", vt.Plain(args[0]), config.ProjectFile).
			withHint("a file with another name is read only if --config names it, and needs no trust")
	}
	return trust.Name(path), nil
}

func (t *truster) add(path string) error {
	data, refused := trust.Examine(path)
	if refused != nil {
		return no(lifeloop.InvalidRequest, "cannot trust %s", vt.Plain(refused.Error()))
	}
	programs, err := config.Describe(path, data)
	if err != nil {
		return no(lifeloop.InvalidRequest, "cannot trust %s", vt.Plain(err.Error())).withHint("lifeloop-wrap config schema prints the schema of a configuration")
	}
	r, err := t.records.Add(path, data, time.Now())
	if err != nil {
		return no(lifeloop.InternalError, "cannot record that %s is trusted: %v", vt.Plain(path), err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "trusted %s\n", vt.Plain(path))
	for _, p := range programs {
		var words []string
		for _, w := range p.Command {
			words = append(words, vt.Word(w))
		}
		fmt.Fprintf(&text, "  %s: %s\n", p.Path, strings.Join(words, " "))
	}
	return t.g.print(t.cmd, struct {
		trust.Record
		Programs []config.Program `json:"programs"`
	}{r, append([]config.Program{}, programs...)}, text.String())
}

func (t *truster) revoke(path string) error {
	err := t.records.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return no(lifeloop.InvalidRequest, "%s is not trusted", vt.Plain(path)).withHint("lifeloop-wrap trust --list lists the trusted files")
	}
	if err != nil {
		return err
	}
	return t.g.print(t.cmd, map[string]string{"path": path}, "no longer trusted: "+vt.Plain(path)+"\n")
}

// list prints each record and, if its file is not used, the reason.
func (t *truster) list() error {
	records, err := t.records.List()
	if err != nil {
		return no(lifeloop.InternalError, "list the trusted files: %v", err)
	}
	for _, r := range records {
		refused := t.records.Check(r.Path)
		var why *string
		text := vt.Plain(r.Path)
		if refused != nil {
			why = &refused.Why
			text += ": " + vt.Plain(refused.Why)
		}
		err := t.g.print(t.cmd, struct {
			trust.Record
			Why *string `json:"not_used"`
		}{r, why}, text+"\n")
		if err != nil {
			return err
		}
	}
	return nil
}

// loadProject finds the project's file and checks whether the file is trusted.
func loadProject(dir, stateDir string) trust.File {
	return trust.Open(stateDir).Find(dir, os.Getenv("HOME"), config.ProjectFile)
}

// trustHint returns a hint for the user about a project's file that is not
// used.
func (g *globals) trustHint(r *trust.Refusal) string {
	if !r.Unknown {
		if _, err := trust.ReadFile(r.Path); err != nil {
			return fmt.Sprintf("nothing in the file is used, and --config cannot read the file either: it must be a readable regular file of at most %d KiB", trust.MaxFile>>10)
		}
		return "nothing in the file is used; --config FILE reads it without checking its owner, permissions and trust record"
	}
	return "read the file; to allow the programs that it names to run, trust it: " + g.trustCommand(r)
}

// trustCommand returns the command that trusts a file.
func (g *globals) trustCommand(r *trust.Refusal) string {
	words := "lifeloop-wrap "
	if g.stateDir != "" {
		words += "--state-dir " + vt.Word(g.stateDir) + " "
	}
	return words + "trust " + vt.Word(r.Path)
}
