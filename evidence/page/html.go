package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"

	"lifeloop/internal/vt"
)

// begin is the page up to the session's id in its title; style is the rest of its head.
// Neither begin nor style contains a value.
var (
	//go:embed begin.html
	begin markup
	//go:embed style.html
	style markup
)

// Is reports whether a document begins like the pages that [Page.HTML] returns.
func Is(doc []byte) bool { return bytes.HasPrefix(doc, []byte(begin)) }

// A markup is HTML that this package itself contains. It must be a constant or an
// embedded file, never a converted string: only values are escaped.
type markup string

// A writer writes HTML and escapes the values in it. A writer replaces html/template,
// which calls methods by name. In a program with html/template the linker keeps every
// exported method, and each start of lifeloop-wrap would take about 1 ms longer.
type writer struct{ out bytes.Buffer }

// raw writes markup without values.
func (w *writer) raw(m markup) { w.out.WriteString(string(m)) }

// put writes markup, and each value at its %s, escaped: no value can begin a tag, end
// an attribute, or reorder the text around it.
func (w *writer) put(m markup, values ...any) {
	for i, v := range values {
		values[i] = html.EscapeString(vt.Plain(fmt.Sprint(v)))
	}
	fmt.Fprintf(&w.out, string(m), values...)
}

// putTable writes a table: its head, its rows, and the number of rows that are left out.
func putTable[T any](w *writer, head markup, columns int, rows table[T], put func(T)) {
	w.put(`<div class="scroll"><table>` + "\n<thead><tr>")
	w.raw(head)
	w.put("</tr></thead><tbody>\n")
	for _, one := range rows.Rows {
		put(one)
	}
	if rows.Left > 0 {
		w.put(`<tr><td colspan="%s" class="quiet">%s more</td></tr>`+"\n", columns, rows.Left)
		for _, one := range rows.End {
			put(one)
		}
	}
	w.put("</tbody></table></div>")
}

// HTML returns the page.
func (p *Page) HTML(c Checked) []byte {
	m, w := p.model(), &writer{}
	w.raw(begin)
	w.put("%s", m.Title)
	w.raw(style)
	w.put(`<h1>Session <bdi>%s</bdi> <span class="%s">%s</span></h1>`+"\n<dl>", m.Title, m.Tone, m.State)
	for _, one := range m.Head {
		w.put("\n<dt><bdi>%s</bdi></dt><dd><bdi>%s</bdi></dd>", one.Name, one.Value)
	}
	w.put("\n</dl>\n\n<h2>Verification</h2>\n")
	w.verification(c)
	w.put("\n\n<h2>Context</h2>\n")
	w.chart(m.Chart)
	w.put("\n\n<h2>Turns</h2>\n")
	w.turns(m.Turns)
	w.put("\n\n<h2>What happened</h2>\n")
	putTable(w, `<th>at</th><th>fact</th><th class="num">entry</th>`, 3, m.Timeline, func(r row) {
		w.put(`<tr><td class="time">%s</td><td class="%s"><bdi>%s</bdi></td><td class="num">%s</td></tr>`+"\n", r.At, r.Tone, r.What, r.Seq)
	})
	w.put("\n\n<h2>Receipts</h2>\n")
	w.receipts(m.Receipts)
	w.put("\n</body>\n</html>\n")
	return w.out.Bytes()
}

func (w *writer) verification(c Checked) {
	if c.Report.OK {
		w.put(`<p class="good">The verification of this session's evidence succeeded.</p>`)
	} else {
		w.put(`<p class="bad">The verification of this session's evidence failed.</p>`)
	}
	w.put("\n<dl>\n<dt>ledger</dt><dd>%s entries, one chain of digests", c.Entries)
	if c.Torn {
		w.put(` <span class="warn">(the last line is unfinished, as after a crash; it is left out)</span>`)
	}
	w.put("</dd>\n<dt>last entry</dt><dd><code>%s</code></dd>\n<dt>runpack</dt><dd><code>%s</code></dd>\n<dt>signature</dt><dd>%s</dd>\n</dl>\n",
		c.Head, c.Report.Digest, c.Report.SignatureStatus)
	if len(c.Report.Problems) > 0 {
		w.put("<ul>")
		for _, one := range c.Report.Problems {
			w.put(`<li class="bad"><bdi>%s</bdi></li>`, one.String())
		}
		w.put("</ul>")
	}
	w.put("\n" + `<p class="quiet">This page is not evidence itself. To verify the evidence, export it and run <code>lifeloop-wrap evidence verify</code>. What verification does not prove:</p>` + "\n" + `<ul class="quiet">`)
	for _, note := range c.Report.Notes {
		w.put("<li>%s</li>", note)
	}
	w.put("</ul>")
}

func (w *writer) chart(c *chart) {
	if c == nil {
		w.put(`<p class="quiet">The harness did not report the size of its context.</p>`)
		return
	}
	w.put("<figure>\n<figcaption>top of the chart: %s tokens", c.Top)
	if c.TopIsWindow {
		w.put(", the size of the model's context window")
	}
	w.put("</figcaption>\n"+`<svg viewBox="0 0 %s %s" role="img" aria-label="tokens of the context over time">`, c.Width, c.Height)
	for _, one := range c.Marks {
		w.put("\n"+`<line x1="%s" x2="%s" y1="0" y2="%s"><title>%s</title></line>`, one.X, one.X, c.Height, one.What)
	}
	w.put("\n"+`<polyline points="%s"/>`+"\n</svg>\n<figcaption>width of the chart: the whole session, %s", c.Line, c.Took)
	if len(c.Marks) > 0 {
		w.put("; dashed: the context was compacted or renewed")
	}
	w.put("</figcaption>\n</figure>")
}

func (w *writer) turns(turns table[*turn]) {
	if len(turns.Rows) == 0 {
		w.put(`<p class="quiet">No turn was observed.</p>`)
		return
	}
	const head = `<th class="num">#</th><th>at</th><th>opened by</th><th class="num">took</th><th>outcome</th><th class="num">context</th><th class="num">receipts</th><th class="num">payloads delivered</th>`
	putTable(w, head, 8, turns, func(t *turn) {
		tone := "warn"
		if t.Outcome == "completed" {
			tone = "good"
		}
		w.put(`<tr><td class="num">%s</td><td class="time">%s</td><td>%s</td><td class="num">%s</td><td class="%s">%s</td><td class="num">%s</td><td class="num">%s</td><td class="num">%s</td></tr>`+"\n",
			t.Number, t.At, t.Origin, t.Took, tone, t.Outcome, t.Tokens, t.Receipts, t.Delivered)
	})
}

func (w *writer) receipts(receipts table[receipt]) {
	if len(receipts.Rows) == 0 {
		w.put(`<p class="quiet">No client was called.</p>`)
		return
	}
	putTable(w, "<th>at</th><th>client</th><th>event</th><th>status</th><th>payloads</th><th>id</th>", 6, receipts, func(r receipt) {
		status := r.Status
		if r.Failure != "" {
			status += ", " + r.Failure
		}
		w.put(`<tr><td class="time">%s</td><td><bdi>%s</bdi></td><td>%s</td><td class="%s">%s</td><td><bdi>%s</bdi></td><td><code>%s</code></td></tr>`+"\n",
			r.At, r.Client, r.Event, r.Tone, status, r.Payloads, r.ID)
	})
}
