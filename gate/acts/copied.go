package acts

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A path is resolved before its command line runs, but a command of the line may put a link
// at the path, as in cp -a LINK l; rm l/x. So the copies that keep links are noted.

// maxCopied limits the copies that are noted for one tool call, because each later write is
// compared with all of them. A further copy is undecidable.
const maxCopied = 64

// A copied is a path to which a command copied or moved something.
type copied struct {
	to   string // absolute
	from string // absolute; empty if unknown
	some bool   // from is a folder whose files were copied, as in cp -a from/* to
}

// copied notes a copy that keeps links. If the command unpacks an archive, from is not
// known.
func (s *shell) copied(from, to arg) {
	if to.whole {
		for _, text := range to.texts() {
			s.copied(from, arg{text: text, known: true})
		}
	}
	if !to.known || len(s.dirs) == 0 && !path.IsAbs(to.text) {
		// If to.whole is set, each choice was handled above. A write to any other
		// unknown path is undecidable already.
		return
	}
	for _, dir := range s.below(to) {
		for _, copy := range s.sources(from) {
			switch copy.to = dir; {
			case slices.Contains(s.placed, copy):
			case len(s.placed) == maxCopied:
				s.undecidable("path")
				return
			default:
				s.placed = append(s.placed, copy)
			}
		}
	}
}

// sources returns the copies that a command may make if from is its source. In each copy,
// copied.to is still empty. If from is not known, or has a pattern that may name several
// folders, the result is one copy in which copied.from is empty, too.
func (s *shell) sources(from arg) (all []copied) {
	folder, name := path.Split(from.text)
	some := strings.ContainsAny(name, "*?[")
	switch {
	case !from.known, strings.ContainsAny(folder, "*?["):
		return []copied{{}}
	case some:
		from.text = cmp.Or(folder, ".")
	}
	for _, source := range s.below(from) {
		all = append(all, copied{from: source, some: some})
	}
	return all
}

// throughCopy reports whether a write or deletion may follow a link that was copied.
func (c *collector) throughCopy(p, op string) bool {
	if op == "delete" {
		p = path.Dir(p) // deleting a link does not delete its target
	}
	for _, copy := range c.placed {
		rest, below := strings.CutPrefix(p+"/", strings.TrimSuffix(copy.to, "/")+"/")
		switch rest = strings.TrimSuffix(rest, "/"); {
		case !below, c.scene.Resolve == nil:
		case copy.from == "":
			if rest != "" {
				return true
			}
		case copy.some && rest == "":
			// Here copy.to counts as a folder. It may be a copied link, though, if the
			// pattern has only one match.
		case c.linked(copy.from, rest), strings.HasPrefix(rest+"/", path.Base(copy.from)+"/") && c.linked(copy.from, strings.TrimPrefix(rest, path.Base(copy.from))):
			return true
		}
	}
	return false
}

// linked reports whether a link may be in the path p/rest, at p or below. The link may
// exist already, or an earlier copy may have put a link there.
func (c *collector) linked(p, rest string) bool {
	for _, copy := range c.placed {
		if copy.from == "" && strings.HasPrefix(path.Join(p, rest), strings.TrimSuffix(copy.to, "/")+"/") ||
			copy.from != "" && copy.from != p && strings.HasPrefix(p+"/", copy.to+"/") && c.isLink(copy.from, strings.TrimPrefix(p, copy.to)+"/"+rest) {
			return true
		}
	}
	return c.isLink(p, rest)
}

// isLink reports whether a link is in the path p/rest, at p or below. The answer for each
// path is kept, because each write asks about each copy.
func (c *collector) isLink(p, rest string) bool {
	if c.links == nil {
		c.links = map[[2]string]bool{}
	}
	link, asked := c.links[[2]string{p, rest}]
	if !asked {
		link = c.scene.Resolve(path.Join(p, rest)) != path.Join(c.scene.Resolve(path.Dir(p)), path.Base(p), rest)
		c.links[[2]string{p, rest}] = link
	}
	return link
}
