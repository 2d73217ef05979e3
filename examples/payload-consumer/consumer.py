#!/usr/bin/env python3
"""A client that acts on payloads: their bodies, or references to them.

    consumer.py INBOX [--again-after N]

reads one dispatch envelope on stdin and answers on stdout. In the folder INBOX,
`bodies/` holds every body that was acted on, `acted.jsonl` has a line for each
action, and `seen.json` counts how often each signal came. A signal is a payload's
kind with the digest of its body or its reference. The client acts on the first
one and on every Nth repeat, and only counts the others. This policy is its own:
the wrapper does not detect repeats. References are recorded, never followed.
"""
import argparse
import base64
import binascii
import fcntl
import hashlib
import json
import os
import sys

REMEMBERED = 1000  # dispatches whose retry is detected


class Rejected(Exception):
    """A payload that does not match its envelope."""


def body_of(payload):
    """The decoded body of a payload, or None where it has only a reference."""
    text = payload.get("body")
    if text is None:
        return None
    if payload["content_encoding"] == "base64":
        try:
            body = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Rejected("the body is not base64") from None
    else:
        body = text.encode()
    if len(body) != payload["byte_size"]:
        raise Rejected("the size differs from byte_size")
    promised = payload.get("content_digest")
    if promised and promised.lower() != "sha256:" + hashlib.sha256(body).hexdigest():
        raise Rejected("the digest differs from content_digest")
    return body


def consume(inbox, payloads, seen, again_after):
    """Acts on the payloads by the policy, with a warning for each that it only counted."""
    # Decode all payloads before acting on any.
    looked_at = [(p, body_of(p)) for p in payloads]
    acted, warnings = 0, []
    for payload, body in looked_at:
        what = "ref:" + str(payload.get("body_ref")) if body is None else hashlib.sha256(body).hexdigest()
        signal = payload["payload_kind"] + " " + what
        repeat = seen.get(signal, -1) + 1
        seen[signal] = repeat
        if repeat % again_after:
            warnings.append(f"payload {payload['payload_id']} is repeat {repeat} and was counted only")
            continue
        act = {"payload_id": payload["payload_id"], "payload_kind": payload["payload_kind"], "repeat": repeat}
        if body is None:
            act["body_ref"] = payload.get("body_ref")
        else:
            act["body"] = os.path.join("bodies", what)
            with open(os.path.join(inbox, act["body"]), "wb") as f:
                f.write(body)
        with open(os.path.join(inbox, "acted.jsonl"), "a", encoding="utf-8") as f:
            f.write(json.dumps(act) + "\n")
        acted += 1
    return acted, warnings


def answer(inbox, envelope, again_after):
    request, payloads = envelope["request"], envelope.get("payloads", [])
    path = os.path.join(inbox, "seen.json")
    state = {"events": 0, "seen": {}, "handled": []}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            state = json.load(f)
    key = request.get("idempotency_key")
    if key and [request["adapter_id"], key] in state["handled"]:
        return {"status": "observed", "warnings": ["handled before"]}
    try:
        acted, warnings = consume(inbox, payloads, state["seen"], again_after)
    except Rejected as why:
        return {"status": "failed", "failure_class": "payload_rejected", "warnings": [f"rejected a payload: {why}"]}
    state["events"] += 1
    if key:
        state["handled"] = state["handled"][1 - REMEMBERED:] + [[request["adapter_id"], key]]
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(state, f)
    os.replace(path + ".new", path)
    if not payloads:
        return {"status": "observed"}
    return {"status": "delivered" if acted else "skipped", "warnings": warnings}


def main():
    words = argparse.ArgumentParser(description="acts on the payloads of a dispatch envelope")
    words.add_argument("inbox")
    words.add_argument("--again-after", type=int, default=3, metavar="N", help="act on every Nth repeat (default: %(default)s)")
    args = words.parse_args()
    if args.again_after < 1:
        words.error("--again-after: want 1 or more")
    os.makedirs(os.path.join(args.inbox, "bodies"), exist_ok=True)
    envelope = json.load(sys.stdin)
    with open(os.path.join(args.inbox, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another session may start this program at the same time
        json.dump(answer(args.inbox, envelope, args.again_after), sys.stdout)


if __name__ == "__main__":
    main()
