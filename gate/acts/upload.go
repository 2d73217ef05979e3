package acts

import "strings"

// uploads adds the files that curl reads if the name of the file is only a part of a flag's
// value, as in --cert FILE:PASSWORD. Other code handles the values FILE, @FILE and
// NAME=@FILE, for every command.
func (s *shell) uploads(in invocation) {
	for _, f := range in.flags {
		for _, text := range f.value.texts() {
			for _, file := range uploaded(f.name, text) {
				s.touch(arg{text: file, known: true}, opContent)
			}
		}
	}
}

func uploaded(name, text string) (files []string) {
	switch name {
	case "F", "form": // as in NAME=@FILE,FILE;headers=@FILE;type=TEXT
		_, parts, _ := strings.Cut(text, "=")
		if parts == "" || !strings.ContainsAny(parts[:1], "@<") {
			return nil
		}
		for part := range strings.FieldsFuncSeq(parts, func(r rune) bool { return strings.ContainsRune(`;,"`, r) }) {
			key, value, is := strings.Cut(strings.TrimSpace(part), "=")
			if is && key != "headers" {
				continue
			} else if !is {
				value = key
			}
			files = append(files, strings.TrimLeft(value, "@< "))
		}
	case "T", "upload-file":
		files, _ = alternatives(text)
	case "E", "cert", "proxy-cert": // FILE:PASSWORD
		file, _, _ := strings.Cut(text, ":")
		files = []string{file}
	case "data-urlencode", "url-query", "variable": // NAME@FILE
		if before, file, is := strings.Cut(text, "@"); is && !strings.Contains(before, "=") {
			files = []string{file}
		}
	}
	return files
}
