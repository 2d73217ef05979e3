#!/bin/sh
# The smallest client: it keeps every event, a line each, and wants nothing.
{ cat; echo; } >> "${EVENT_LOG:-lifeloop-events.jsonl}"
echo '{"status":"observed"}'
