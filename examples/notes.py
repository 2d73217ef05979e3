#!/usr/bin/env python3
"""A client that adds the file NOTES.md to every prompt."""
import json, os, sys

request = json.load(sys.stdin)["request"]
answer = {"status": "observed"}
if request["event"] == "frame.opening" and os.path.exists("NOTES.md"):
    note = open("NOTES.md", encoding="utf-8").read()
    answer["client_payloads"] = [{
        "schema_version": 1, "payload_id": "note-" + request["event_id"],
        "client_id": os.environ["LIFELOOP_CLIENT_ID"], "payload_kind": "note", "format": "markdown",
        "content_encoding": "utf8", "body": note, "byte_size": len(note.encode()),
        "acceptable_placements": [{"placement": "pre_prompt_frame", "requirement": "preferred"}],
        "redaction": "none", "metadata": {}}]
json.dump(answer, sys.stdout)
