#!/usr/bin/env python3
"""Google Cloud Storage's JSON interface in memory, for tests, as strict as the real one.

It checks bearer tokens, and answers the token endpoint and the metadata server's addresses itself,
after verifying the signature of the statement; honours generations on every verb; knows resumable
uploads with 308, status queries and partly stored pieces; refuses bytes that do not match their
checksum; pages lists; and complains in the JSON of the real one. Only Python's standard library and
the openssl command (to make a key) are needed.

    strict_gcs.py --port 4443 --credentials /tmp/key.json     # then GOOGLE_APPLICATION_CREDENTIALS

It listens on 127.0.0.1 and prints "ready URL". A test tells it to misbehave by POST to
/_strict/VERB?..., see Orders. strict_gcs_objects.py has the objects and what may be asked of them.
"""

import argparse
import base64
import hashlib
import json
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.dont_write_bytecode = True  # the source tree stays as it is
from strict_gcs_objects import Objects, Refusal

READ = "https://www.googleapis.com/auth/devstorage.read_only"
WRITE_SCOPES = {
    "https://www.googleapis.com/auth/devstorage.read_write",
    "https://www.googleapis.com/auth/devstorage.full_control",
    "https://www.googleapis.com/auth/cloud-platform",
}
EMAIL = "strict@strict-project.iam.gserviceaccount.com"
PROJECT = "strict-project"
JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


class Grants:
    """Who may come in: the key of a service account, a person's login, and the tokens given."""

    def __init__(self, url, life_s):
        self.url, self.life_s, self.ahead_s = url, life_s, 0
        self.tokens = {}  # text: (scopes, expires)
        self.key = subprocess.run(["openssl", "genrsa", "2048"], check=True, text=True,
                                  capture_output=True).stdout
        modulus = subprocess.run(["openssl", "rsa", "-noout", "-modulus"], check=True, text=True,
                                 input=self.key, capture_output=True).stdout
        self.modulus = int(modulus.split("=")[1], 16)
        self.key_id = secrets.token_hex(20)
        self.login = {"type": "authorized_user", "client_id": secrets.token_hex(8),
                      "client_secret": secrets.token_hex(8),
                      "refresh_token": secrets.token_hex(16), "token_uri": url + "/token"}

    def now(self):
        return time.time() + self.ahead_s

    def key_file(self):
        return {"type": "service_account", "project_id": PROJECT, "private_key_id": self.key_id,
                "private_key": self.key, "client_email": EMAIL, "client_id": "1",
                "token_uri": self.url + "/token"}

    def give(self, scopes):
        token = "ya29." + secrets.token_urlsafe(40)
        self.tokens[token] = (scopes, self.now() + self.life_s)
        return {"access_token": token, "expires_in": self.life_s, "token_type": "Bearer"}

    def scopes_of(self, authorization):
        """None if the token is none of ours or has expired."""
        found = self.tokens.get((authorization or "").removeprefix("Bearer "))
        return found[0] if found and self.now() < found[1] else None

    def answer(self, form):
        """The token endpoint: a status and what it says."""
        grant = form.get("grant_type", "")
        if grant == "refresh_token":
            known = all(form.get(name) == self.login[name]
                        for name in ("client_id", "client_secret", "refresh_token"))
            if not known:
                return 400, oauth_error("Token has been expired or revoked.")
            return 200, self.give({"https://www.googleapis.com/auth/cloud-platform"})
        if grant != JWT_GRANT:
            return 400, {"error": "unsupported_grant_type",
                         "error_description": f"Invalid grant_type: {grant}"}
        problem, claims = self.check_jwt(form.get("assertion", ""))
        if problem:
            return 400, oauth_error(problem)
        return 200, self.give(set(claims["scope"].split()))

    def check_jwt(self, jwt):
        parts = jwt.split(".")
        if len(parts) != 3 or any("=" in part for part in parts):
            return "Invalid JWT: not three parts.", None
        try:
            header, claims = (json.loads(from_base64url(part)) for part in parts[:2])
            signature = from_base64url(parts[2])
        except ValueError:
            return "Invalid JWT: not base64url of JSON.", None
        if header.get("alg") != "RS256" or header.get("kid", self.key_id) != self.key_id:
            return "Invalid JWT Signature.", None
        if not self.is_signed(f"{parts[0]}.{parts[1]}".encode(), signature):
            return "Invalid JWT Signature.", None
        if claims.get("iss") != EMAIL:
            return "Invalid grant: account not found", None
        # Google's client for Python names Google's own address whatever the key file says.
        if claims.get("aud") not in (self.url + "/token", "https://oauth2.googleapis.com/token"):
            return "Invalid JWT: Failed audience check.", None
        if not isinstance(claims.get("scope"), str) or not claims["scope"]:
            return "Invalid OAuth scope or ID token audience provided.", None
        issued, expires = claims.get("iat"), claims.get("exp")
        is_time = isinstance(issued, int) and isinstance(expires, int)
        if not is_time or issued > self.now() + 300 or expires < self.now() - 300 \
                or not 0 < expires - issued <= 3600:
            return ("Invalid JWT: Token must be a short-lived token (60 minutes) and in a "
                    "reasonable timeframe. Check your iat and exp values in the JWT claim."), None
        return None, claims

    def is_signed(self, text, signature):
        """RSASSA-PKCS1-v1_5 with SHA-256, by the definition (RFC 8017, 8.2.2)."""
        size = (self.modulus.bit_length() + 7) // 8
        if len(signature) != size:
            return False
        opened = pow(int.from_bytes(signature, "big"), 65537, self.modulus).to_bytes(size, "big")
        digest = SHA256_PREFIX + hashlib.sha256(text).digest()
        return opened == b"\0\1" + b"\xff" * (size - 3 - len(digest)) + b"\0" + digest


class Orders:
    """What a test told the server to do wrong. Each is POST /_strict/VERB?name=value&...

    fail     status: answer so
    lose     carry out, then break the connection without an answer
    garbage  200 and a web page
             these with count=1, skip=0, match="", method="": how often, after how many, and only
             for addresses with match in them
    deny     permission: 403 for what needs it, until deny without one
    expire   all tokens are worthless from now on
    clock    ahead: seconds by which its clock differs
    forget   unfinished uploads are forgotten (404)
    store    bytes: of each piece of an upload keep only that many (a multiple of 256 KiB); 0: all
    GET /_strict/counts: how often each method came, and how many tokens were given
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.pending = []
        self.denied = None
        self.counts = {}

    def add(self, what, query):
        with self.lock:
            self.pending.append({"what": what, "count": int(query.get("count", "1")),
                                 "skip": int(query.get("skip", "0")),
                                 "status": int(query.get("status", "503")),
                                 "match": query.get("match", ""),
                                 "method": query.get("method", "")})

    def take(self, method, address):
        with self.lock:
            self.counts[method] = self.counts.get(method, 0) + 1
            for order in self.pending:
                if order["count"] <= 0 or order["match"] not in address \
                        or order["method"] not in ("", method):
                    continue
                if order["skip"] > 0:
                    order["skip"] -= 1
                    continue
                order["count"] -= 1
                return order
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def date_time_string(self, timestamp=None):
        return formatdate(self.server.grants.now(), usegmt=True)

    def handle_any(self):
        length = self.headers.get("Content-Length")
        is_order = self.path.startswith("/_strict/")
        if length is None and not is_order and (self.command in ("PUT", "POST")
                                                or "Transfer-Encoding" in self.headers):
            return self.reply_error(Refusal(411, "required", "Length Required"))
        body = self.rfile.read(int(length or 0))
        if len(body) != int(length or 0):  # cut: nothing of it counts
            self.close_connection = True
            return None
        path, _, query_text = self.path.partition("?")
        try:
            query = dict(urllib.parse.parse_qsl(query_text, keep_blank_values=True,
                                                errors="strict"))
        except ValueError:
            return self.reply_error(Refusal(400, "invalid", "Bad query"))
        if is_order:
            return self.obey(path.removeprefix("/_strict/"), query)
        order = self.server.orders.take(self.command, self.path)
        if order and order["what"] == "fail":
            reason = "rateLimitExceeded" if order["status"] == 429 else "backendError"
            return self.reply_error(Refusal(order["status"], reason, "told to"))
        if order and order["what"] == "garbage":
            return self.reply(200, b"<html>not a store</html>", [("Content-Type", "text/html")])
        if order and order["what"] == "lose":
            self.wfile = open("/dev/null", "wb")  # what is said from here on reaches nobody
            self.close_connection = True
        try:
            self.route(path, query, body)
        except Refusal as refusal:
            self.reply_error(refusal, as_text=query.get("alt") == "media")
        if order and order["what"] == "lose":
            self.connection.shutdown(socket.SHUT_RDWR)
        return None

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = handle_any

    def obey(self, verb, query):
        server = self.server
        if verb in ("fail", "lose", "garbage"):
            server.orders.add(verb, query)
        elif verb == "deny":
            server.orders.denied = query.get("permission")
        elif verb == "expire":
            server.grants.tokens.clear()
        elif verb == "clock":
            server.grants.ahead_s = int(query["ahead"])
        elif verb == "forget":
            server.objects.uploads.clear()
        elif verb == "store":
            server.objects.piece_bytes_max = int(query["bytes"])
        elif verb == "counts":
            return self.reply_json(200, {**server.orders.counts,
                                         "tokens": len(server.grants.tokens)})
        else:
            return self.reply_json(404, {})
        return self.reply_json(200, {})

    def route(self, path, query, body):
        grants, objects = self.server.grants, self.server.objects
        if path == "/token" and self.command == "POST":
            form = dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace")))
            return self.reply_json(*grants.answer(form))
        if path.startswith("/computeMetadata/v1/instance/service-accounts/default/"):
            return self.metadata(path.rsplit("/", 1)[1])
        needs, act = objects.find_verb(self.command, path, query)
        self.check_rights(needs)
        status, headers, answer = act(self.headers, body, f"http://{self.headers['Host']}")
        if isinstance(answer, dict):
            return self.reply_json(status, select(answer, query.get("fields")), headers)
        return self.reply(status, answer, headers)

    def metadata(self, what):
        if self.headers.get("Metadata-Flavor") != "Google":
            return self.reply(403, b"Missing Metadata-Flavor:Google header.", [])
        told = [("Metadata-Flavor", "Google"), ("Content-Type", "application/json")]
        if what == "email":
            return self.reply(200, EMAIL.encode(), told)
        scopes = {"https://www.googleapis.com/auth/cloud-platform"}
        return self.reply(200, json.dumps(self.server.grants.give(scopes)).encode(), told)

    def check_rights(self, needs):
        if self.server.anonymous and "Authorization" not in self.headers:
            return
        scopes = self.server.grants.scopes_of(self.headers.get("Authorization"))
        if scopes is None:
            raise Refusal(401, "authError", "Invalid Credentials")
        is_read = needs in ("storage.objects.get", "storage.objects.list", "storage.buckets.get")
        if not scopes & (WRITE_SCOPES | ({READ} if is_read else set())):
            raise Refusal(403, "insufficientPermissions", "Insufficient Permission")
        if needs == self.server.orders.denied:
            raise Refusal(403, "forbidden",
                          f"{EMAIL} does not have {needs} access to the Google Cloud Storage "
                          f"object. Permission '{needs}' denied on resource (or it may not exist).")

    def reply_error(self, refusal, as_text=False):
        if as_text:  # as the real one, which calls this text/html
            return self.reply(refusal.status, refusal.message.encode(),
                              [("Content-Type", "text/html; charset=UTF-8"), *refusal.headers])
        error = {"message": refusal.message, "domain": "global", "reason": refusal.reason}
        return self.reply_json(refusal.status,
                               {"error": {"code": refusal.status, "message": refusal.message,
                                          "errors": [error]}}, refusal.headers)

    def reply_json(self, status, value, headers=()):
        self.reply(status, json.dumps(value).encode(),
                   [("Content-Type", "application/json; charset=UTF-8"), *headers])

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self._headers_buffer.append(b"\r\n")
        if status != 204 and self.command != "HEAD":
            self._headers_buffer.append(bytes(body))
        self.flush_headers()  # one write: two would wait for each other


def oauth_error(description):
    return {"error": "invalid_grant", "error_description": description}


def from_base64url(text):
    if not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        raise ValueError("not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def select(value, fields):
    """The part of an answer that "fields" asks for: "a,b(c,d),e/f"."""
    if not fields or fields == "*":
        return value
    chosen = {}
    for name, inner in re.findall(r"([A-Za-z0-9]+)(?:\(([^()]*)\)|/[A-Za-z0-9/]+)?", fields):
        if name not in value:
            continue
        part = value[name]
        if inner and isinstance(part, list):
            part = [select(item, inner) for item in part]
        chosen[name] = part
    return chosen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--credentials", help="writes the key file of its service account here")
    parser.add_argument("--login", help="writes a person's credentials (authorized_user) here")
    parser.add_argument("--anonymous", action="store_true", help="requests without a token pass")
    parser.add_argument("--page-size", type=int, default=1000)
    parser.add_argument("--token-life", type=int, default=3599)
    parser.add_argument("--bucket", action="append", default=[], help="is there from the start")
    flags = parser.parse_args()
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer(("127.0.0.1", flags.port), Handler, bind_and_activate=False)
    server.server_bind()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    server.grants = Grants(url, flags.token_life)
    server.orders = Orders()
    server.objects = Objects(flags.page_size, flags.bucket)
    server.anonymous = flags.anonymous
    for path, content in ((flags.credentials, server.grants.key_file()),
                          (flags.login, server.grants.login)):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(content, file)
    server.server_activate()  # not before: who can connect finds the files
    print("ready", url, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
