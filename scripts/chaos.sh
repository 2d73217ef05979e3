#!/bin/sh
# chaos.sh [WORLDS]: play WORLDS random worlds (50000) against every law, make every
# change of one bit in the evidence of a session, change every byte of other evidence,
# kill a process at every append of a session, kill an observer after each of its facts,
# and inject every fault of the fault matrix. The parts run side by side: most need
# processors, the kills and the faults mostly wait. A part that fails prints all of its
# output, with the seed of a world. All parts together take 10 to 30 minutes on two
# processors, because the kills start some thousand processes and machines differ in
# how long that takes: 5,000 worlds alone take 20 seconds, 100,000 take 7 minutes.
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

part() { # NAME PACKAGE TEST FLAG…
	name=$1 package=$2 test=$3
	shift 3
	go test -count=1 -v -timeout 1h -run "^($test)\$" "$package" "$@" >"$out/$name" 2>&1
	echo $? >"$out/$name.exit"
}
# A larger heap costs nothing here and saves a fifth of the time.
GOGC=400 part worlds ./kernel TestWorlds -worlds "${1:-50000}" &
part changes ./evidence 'TestEveryChange.*|TestAChangedByteOfTheArchiveChangesNoFile' -changes &
part kills ./cmd/lifeloop-wrap 'TestKill(Matrix|Renewal.*)' -kills 0 -parallel 4 &
part prefixes ./supervisor TestEveryPrefixOfAnObservationResumes -prefixes &
part faults ./cmd/lifeloop-wrap TestFaultMatrix -faults -parallel 4 &
wait

broken=0
for name in worlds changes kills faults prefixes; do
	case $(cat "$out/$name.exit") in
	0) sed -n -E 's/^ +[a-z_]+_test\.go:[0-9]+: (.* (worlds|changes|points of .*|rows) in .*)/\1/p' "$out/$name" ;;
	*) broken=1 && cat "$out/$name" ;;
	esac
done
sed -n '/^ *TRIED/,/^[-=F]/p' "$out/faults" | grep -v -e '^---' -e '^===' | sed 's/^        //'
exit $broken
