#!/usr/bin/env python3
"""The metadata services of Google Compute Engine and Azure for tests, as strict as their documents.

Google: https://cloud.google.com/compute/docs/metadata/querying-metadata. Every question needs
"Metadata-Flavor: Google" and none may have X-Forwarded-For (403); answers carry the header and an
ETag; wait_for_change=true is answered when the value has another ETag than last_etag, or after
timeout_sec.

Azure: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events. Every question
needs "Metadata: true" and an api-version that exists, none may have X-Forwarded-For (400); POST with
StartRequests approves an event that is there.

    strict_metadata.py --port 8080        # only Python's standard library

It listens on 127.0.0.1. A test moves the world by POST (see Handler.obey):

    /_strict/gcp?key=preempted&value=TRUE
    /_strict/azure?id=A-1&type=Preempt&resource=NAME&in=30   more of them with more calls
    /_strict/azure                                           none any more
    GET /_strict/seen: the questions that were refused, and the events that were approved
"""

import argparse
import json
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MACHINE = {"name": "train_0", "vmSize": "Standard_NC6s_v3", "location": "westeurope"}
EVENT_VERSIONS = {"2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01",
                  "2020-07-01"}
WAIT_MAX_S = 600


class World:
    """What is true of the machine. Whoever waits for a change is told by the condition."""

    def __init__(self):
        self.changed = threading.Condition()
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE",
                       "machine-type": "projects/123456/machineTypes/n1-standard-4"}
        self.etags = {key: f"{1:016x}" for key in self.values}
        self.events = []
        self.incarnation = 1
        self.refused = []
        self.approved = []

    def set_value(self, key, value):
        with self.changed:
            self.values[key] = value
            self.etags[key] = f"{int(self.etags[key], 16) + 1:016x}"
            self.changed.notify_all()

    def wait_for_value(self, key, last_etag, limit_s):
        with self.changed:
            if last_etag is not None:
                self.changed.wait_for(lambda: self.etags[key] != last_etag, limit_s)
            return self.values[key], self.etags[key]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        if url.path.startswith("/_strict/"):
            return self.obey(url.path.removeprefix("/_strict/"), query)
        if url.path.startswith("/computeMetadata/v1/instance/"):
            return self.google(url.path.removeprefix("/computeMetadata/v1/instance/"), query)
        if url.path == "/metadata/scheduledevents":
            return self.azure_events(query, body)
        if url.path == "/metadata/instance/compute":
            return self.azure_machine(query)
        return self.refuse(404, "no such thing")

    do_GET = do_PUT = do_POST = do_HEAD = handle_any

    def obey(self, verb, query):
        world = self.server.world
        if verb == "gcp":
            world.set_value(query["key"], query["value"])
        elif verb == "azure" and query:
            not_before = formatdate(time.time() + int(query["in"]), usegmt=True)
            world.events.append({"EventId": query["id"], "EventType": query["type"],
                                 "ResourceType": "VirtualMachine",
                                 "Resources": ["train_7", query["resource"]],
                                 "EventStatus": "Scheduled", "NotBefore": not_before,
                                 "Description": "told by a test", "EventSource": "Platform",
                                 "DurationInSeconds": -1})
            world.incarnation += 1
        elif verb == "azure":
            world.events = []
            world.incarnation += 1
        return self.reply_json(200, {"refused": world.refused, "approved": world.approved,
                                     "events": world.events})

    def google(self, key, query):
        world = self.server.world
        if self.headers.get("Metadata-Flavor") != "Google" or "X-Forwarded-For" in self.headers:
            return self.refuse(403, "Missing Metadata-Flavor:Google header.")
        if self.command != "GET":
            return self.refuse(405, "only GET")
        if key not in world.values:
            return self.refuse(404, "no such key")
        waits = query.get("wait_for_change", "false")
        limit = query.get("timeout_sec", str(WAIT_MAX_S))
        known = {"wait_for_change", "timeout_sec", "last_etag", "alt", "recursive"}
        if waits not in ("true", "false") or not limit.isdigit() or set(query) - known:
            return self.refuse(400, "bad query")
        # Without last_etag the next change is waited for.
        last = query.get("last_etag", world.etags[key]) if waits == "true" else None
        value, etag = world.wait_for_value(key, last, min(int(limit), WAIT_MAX_S))
        return self.reply(200, value.encode(), [
            ("Metadata-Flavor", "Google"), ("Server", "Metadata Server for VM"),
            ("Content-Type", "application/text"), ("ETag", etag)])

    def azure_is_refused(self, query, versions):
        if self.headers.get("Metadata", "").lower() != "true":
            return self.refuse(400, "Required metadata header not specified")
        if "X-Forwarded-For" in self.headers:
            return self.refuse(400, "X-Forwarded-For is not allowed")
        if versions is not None and query.get("api-version") not in versions:
            return self.refuse(400, "api-version is not supported")
        if "api-version" not in query:
            return self.refuse(400, "api-version was not specified")
        return False

    def azure_events(self, query, body):
        world = self.server.world
        if self.azure_is_refused(query, EVENT_VERSIONS):
            return None
        if self.command == "GET":
            return self.reply_json(200, {"DocumentIncarnation": world.incarnation,
                                         "Events": world.events})
        if self.command != "POST":
            return self.refuse(405, "GET or POST")
        try:
            ids = [request["EventId"] for request in json.loads(body)["StartRequests"]]
        except (ValueError, KeyError, TypeError):
            return self.refuse(400, "no StartRequests")
        if not ids or set(ids) - {event["EventId"] for event in world.events}:
            return self.refuse(400, "no such event")
        world.approved += ids
        for event in world.events:
            if event["EventId"] in ids:
                event.update(EventStatus="Started", NotBefore="")
        world.incarnation += 1
        return self.reply(200, b"", [])

    def azure_machine(self, query):
        if self.azure_is_refused(query, None):
            return None
        return self.reply_json(200, MACHINE)

    def refuse(self, status, why):
        self.server.world.refused.append(f"{self.command} {self.path}: {status} {why}")
        self.reply_json(status, {"error": why})
        return True

    def reply_json(self, status, value):
        return self.reply(status, json.dumps(value).encode(),
                          [("Content-Type", "application/json; charset=utf-8")])

    def reply(self, status, body, headers):
        self.send_response_only(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self._headers_buffer.append(b"\r\n")
        if self.command != "HEAD":
            self._headers_buffer.append(body)
        self.flush_headers()  # one write: two would wait for each other


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--port", type=int, required=True)
    server = Server(("127.0.0.1", parser.parse_args().port), Handler)
    server.world = World()
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
