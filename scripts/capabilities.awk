# capabilities.awk: print for each harness which capabilities its newest version has.
#
#	awk -f scripts/capabilities.awk docs/harnesses/stories.md RESULTS
#
# RESULTS has a line for each story, "holds TestClaude/simple_turn", CHANGED or skipped, and
# for each harness a line "version Claude Code 2.1.332". The table of capabilities names the
# stories of each one. It is proven if they all hold, changed if some fail, and lost if all
# fail.

FNR == NR && /^## / { inside = $2 == "Capabilities" }

FNR == NR && inside && /^\| / {
	columns = split($0, cell, / *\| */)
	if (cell[2] == "capability")
		for (i = 3; i < columns; i++) harness[i] = cell[i]
	else
		for (i = 3; i < columns; i++) {
			rows++
			of[rows] = harness[i]
			capability[rows] = cell[2]
			stories[rows] = cell[i]
		}
}

FNR == NR { next }

/^version / {
	version = $NF
	sub(/^version /, "")
	sub(/ [^ ]*$/, "")
	versions[$0] = version
	next
}

NF > 1 { result[$2] = $1 }

END {
	for (row = 1; row <= rows; row++) {
		good = bad = 0
		count = split(stories[row], part, "`")
		for (i = 2; i <= count; i += 2) {
			name = part[i]
			gsub(/ /, "_", name)
			for (story in result)
				if (story == name || index(story, name "/") == 1) {
					good += result[story] == "holds"
					bad += result[story] == "CHANGED"
				}
		}
		state = good && bad ? "changed" : good ? "proven" : bad ? "lost" : "not played"
		printf "%-12s %-10s %-50s %s\n", of[row], versions[of[row]], capability[row], state
	}
}
