#!/usr/bin/env python3
"""A client that acts on payloads: their bodies, or references to them.

    consumer.py INBOX [--again-after N]

reads one dispatch envelope on stdin and answers on stdout. In the folder INBOX,
`bodies/` gets every body that is acted on, `acted.jsonl` a line for each act,
and `seen.json` remembers how often each signal came. A signal is a payload's
kind with the digest of its body or its reference; the first one is acted on,
then every Nth repeat, and the others are only counted. That policy is this
client's own: the wrapper delivers, and knows nothing of repeats. A reference is
noted, and never followed here.
"""
import argparse
import base64
import binascii
import fcntl
import hashlib
import json
import os
import sys

REMEMBERED = 1000  # dispatches whose retry is recognised


class Rejected(Exception):
    """A payload that is not what its envelope says."""


def body_of(payload):
    """The decoded body of a payload, or None where it has only a reference."""
    text = payload.get("body")
    if text is None:
        return None
    if payload["content_encoding"] == "base64":
        try:
            body = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Rejected("not base64") from None
    else:
        body = text.encode()
    if len(body) != payload["byte_size"]:
        raise Rejected("not as long as it says")
    promised = payload.get("content_digest")
    if promised and promised.lower() != "sha256:" + hashlib.sha256(body).hexdigest():
        raise Rejected("not of the digest that it names")
    return body


def consume(inbox, payloads, seen, again_after):
    """Acts on the payloads by the policy; what it did not do is a warning."""
    # All are looked at before any is acted on.
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
        return {"status": "failed", "failure_class": "payload_rejected", "warnings": [f"a payload is {why}"]}
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
        fcntl.flock(lock, fcntl.LOCK_EX)  # another session may tell us at the same time
        json.dump(answer(args.inbox, envelope, args.again_after), sys.stdout)


if __name__ == "__main__":
    main()
