#!/bin/sh
# The smallest client: it stores every event on one line and requests nothing.
{ cat; echo; } >> "${EVENT_LOG:-lifeloop-events.jsonl}"
echo '{"status":"observed"}'
