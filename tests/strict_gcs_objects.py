"""Buckets, objects and unfinished uploads of strict_gcs.py, and the verbs of the JSON interface."""

import base64
import hashlib
import json
import re
import secrets
import threading
import time
import urllib.parse

UNIT = 256 << 10  # all pieces of an upload but the last are multiples of it
POLYNOMIAL = 0x82F63B78  # CRC-32C, lowest bit first


class Refusal(Exception):
    def __init__(self, status, reason, message, headers=()):
        super().__init__(message)
        self.status, self.reason, self.message, self.headers = status, reason, message, headers


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def _times_x(value):
    return value >> 1 ^ (POLYNOMIAL if value & 1 else 0)


def _multiply(a, b):
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = _times_x(b)
    return product


def _power_of_x(exponent):
    result, square = 1 << 31, 1 << 30  # 1 and x
    while exponent:
        if exponent & 1:
            result = _multiply(result, square)
        square, exponent = _multiply(square, square), exponent >> 1
    return result


def crc32c(data):
    """Folds the bytes in halves with whole-number arithmetic: about 100 times a loop's speed."""
    bits = len(data) * 8
    value = int.from_bytes(data, "little")
    if bits >= 32:
        value ^= 0xFFFFFFFF
    while bits > 8192:
        head_bits = (bits - 64) // 2 // 8 * 8
        head, value = value & ((1 << head_bits) - 1), value >> head_bits
        factor = _power_of_x(bits - head_bits)
        for degree in range(32):
            if factor >> (31 - degree) & 1:
                value ^= head << (bits - 2 * head_bits - degree)
        bits -= head_bits
    crc = 0 if len(data) * 8 >= 32 else 0xFFFFFFFF
    for byte in value.to_bytes(bits // 8, "little"):
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def hashes_of(data):
    return {"crc32c": base64.b64encode(crc32c(data).to_bytes(4, "big")).decode(),
            "md5Hash": base64.b64encode(hashlib.md5(data).digest()).decode()}


def number_of(query, name):
    text = query.get(name)
    if text is not None and not re.fullmatch(r"\d{1,19}", text):
        raise Refusal(400, "invalid", f"Invalid value for parameter {name}")
    return None if text is None else int(text)


class Objects:
    def __init__(self, page_size, buckets):
        self.lock = threading.RLock()
        self.page_size = page_size
        self.buckets = {name: {} for name in buckets}  # name: {object name: (description, bytes)}
        self.uploads = {}
        self.generation = int(time.time() * 1e6)
        self.piece_bytes_max = 0

    def find_verb(self, method, path, query):
        """The permission it needs, and a function from (headers, body, url) to the answer."""
        parts = path.split("/")
        is_upload = parts[1:2] == ["upload"]
        if parts[1:2] in (["upload"], ["download"]):
            parts.pop(1)
        if parts[1:4] != ["storage", "v1", "b"] or len(parts) == 6 and parts[5] != "o":
            raise Refusal(404, "notFound", "Not Found")
        try:
            names = [urllib.parse.unquote(part, errors="strict") for part in parts[4:]]
        except UnicodeDecodeError as error:
            raise Refusal(400, "invalid", "Bad UTF-8") from error
        verb = {
            (0, "POST"): ("storage.buckets.create", self.make_bucket),
            (1, "GET"): ("storage.buckets.get", self.get_bucket),
            (1, "DELETE"): ("storage.buckets.delete", self.delete_bucket),
            (2, "GET"): ("storage.objects.list", self.list),
            (2, "POST"): ("storage.objects.create", self.insert),
            (2, "PUT"): ("storage.objects.create", self.continue_upload),
            (2, "DELETE"): ("storage.objects.create", self.cancel_upload),
            (3, "GET"): ("storage.objects.get", self.get),
            (3, "DELETE"): ("storage.objects.delete", self.delete),
        }.get((len(names), method))
        if verb is None or is_upload and (len(names), method) not in \
                ((2, "POST"), (2, "PUT"), (2, "DELETE")):
            raise Refusal(404, "notFound", "Not Found")
        needs, act = verb

        def run(headers, body, url):
            with self.lock:
                return act(names, query, headers, body, url)
        return needs, run

    def bucket(self, name):
        if name not in self.buckets:
            raise Refusal(404, "notFound", "The specified bucket does not exist.")
        return self.buckets[name]

    def make_bucket(self, _names, query, _headers, body, _url):
        if not query.get("project"):
            raise Refusal(400, "required", "Required parameter: project")
        name = json_of(body).get("name", "")
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", str(name)):
            raise Refusal(400, "invalid", f"Invalid bucket name: '{name}'")
        if name in self.buckets:
            raise Refusal(409, "conflict", "Your previous request to create the named bucket "
                          "succeeded and you already own it.")
        self.buckets[name] = {}
        return 200, [], {"kind": "storage#bucket", "id": name, "name": name}

    def get_bucket(self, names, *_):
        self.bucket(names[0])
        return 200, [], {"kind": "storage#bucket", "id": names[0], "name": names[0]}

    def delete_bucket(self, names, *_):
        if self.bucket(names[0]):
            raise Refusal(409, "conflict", "The bucket you tried to delete is not empty.")
        del self.buckets[names[0]]
        return 204, [], b""

    def list(self, names, query, *_):
        bucket = self.bucket(names[0])
        if "delimiter" in query:
            raise Refusal(400, "invalid", "This server does not know delimiters")
        prefix, size = query.get("prefix", ""), number_of(query, "maxResults") or self.page_size
        try:
            after = base64.b64decode(query.get("pageToken", ""), validate=True)
        except ValueError as error:
            raise Refusal(400, "invalid", "Invalid pageToken") from error
        found = sorted((name.encode(), name) for name in bucket if name.startswith(prefix))
        found = [name for key, name in found if key > after]
        page = {"kind": "storage#objects"}
        size = min(size, self.page_size)
        if found:
            page["items"] = [bucket[name][0] for name in found[:size]]
        if len(found) > size:
            page["nextPageToken"] = base64.b64encode(found[size - 1].encode()).decode()
        return 200, [], page

    def find(self, names, query):
        found = self.bucket(names[0]).get(names[2])
        generation = number_of(query, "generation")
        if not found or generation not in (None, int(found[0]["generation"])):
            raise Refusal(404, "notFound", f"No such object: {names[0]}/{names[2]}")
        return found

    def check_conditions(self, bucket, name, query):
        there = bucket.get(name)
        generation = int(there[0]["generation"]) if there else 0
        wanted = number_of(query, "ifGenerationMatch")
        unwanted = number_of(query, "ifGenerationNotMatch")
        if wanted not in (None, generation) or unwanted == generation and unwanted is not None:
            raise Refusal(412, "conditionNotMet", "At least one of the pre-conditions you "
                          "specified did not hold.")

    def get(self, names, query, headers, _body, _url):
        description, data = self.find(names, query)
        self.check_conditions(self.bucket(names[0]), names[2], query)
        if query.get("alt", "json") != "media":
            return 200, [], description
        told = [("Content-Type", description["contentType"]),
                ("X-Goog-Generation", description["generation"]),
                ("X-Goog-Hash", "crc32c=" + description["crc32c"]),
                ("X-Goog-Hash", "md5=" + description["md5Hash"]),
                ("X-Goog-Stored-Content-Length", str(len(data))), ("Accept-Ranges", "bytes")]
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("Range", ""))
        if not asked or asked[1] == asked[2] == "":
            return 200, told, data
        first = int(asked[1]) if asked[1] else max(len(data) - int(asked[2]), 0)
        last = min(int(asked[2]) if asked[1] and asked[2] else len(data), len(data) - 1)
        if first >= len(data) or last < first:
            raise Refusal(416, "requestedRangeNotSatisfiable", "Request range not satisfiable",
                          [("Content-Range", f"bytes */{len(data)}")])
        told.append(("Content-Range", f"bytes {first}-{last}/{len(data)}"))
        return 206, told, memoryview(data)[first:last + 1]

    def delete(self, names, query, *_):
        self.find(names, query)
        self.check_conditions(self.bucket(names[0]), names[2], query)
        del self.bucket(names[0])[names[2]]
        return 204, [], b""

    def insert(self, names, query, headers, body, url):
        kind = query.get("uploadType")
        content_type = headers.get("Content-Type", "application/octet-stream")
        if kind == "media":
            return self.store(names[0], query, {"contentType": content_type}, headers, body)
        if kind == "multipart":
            told, data = parts_of(content_type, body)
            return self.store(names[0], query, told, headers, data)
        if kind != "resumable":
            raise Refusal(400, "invalid", f"Invalid uploadType: {kind}")
        self.check_conditions(self.bucket(names[0]), self.name_of(query, json_of(body)), query)
        upload = secrets.token_urlsafe(40)
        self.uploads[upload] = {
            "bucket": names[0], "query": query, "told": json_of(body), "data": bytearray(),
            "size": headers.get("X-Upload-Content-Length"), "done": None}
        self.uploads[upload]["told"].setdefault(
            "contentType", headers.get("X-Upload-Content-Type", "application/octet-stream"))
        path = f"/upload/storage/v1/b/{names[0]}/o?uploadType=resumable&upload_id={upload}"
        return 200, [("Location", url + path), ("X-GUploader-UploadID", upload)], b""

    def upload_of(self, query):
        upload = self.uploads.get(query.get("upload_id"))
        if upload is None:
            raise Refusal(404, "notFound", "Not Found")
        return upload

    def cancel_upload(self, _names, query, *_):
        self.upload_of(query)
        del self.uploads[query["upload_id"]]
        return 499, [], b""

    def continue_upload(self, _names, query, headers, body, _url):
        upload = self.upload_of(query)
        if upload["done"]:
            return upload["done"]
        data = upload["data"]
        text = headers.get("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
        asked = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", text)
        if not asked:
            raise Refusal(400, "invalid", f"Invalid Content-Range: {text}")
        size = None if asked[3] == "*" else int(asked[3])
        if size is not None and upload["size"] not in (None, str(size)):
            raise Refusal(400, "invalid", f"The upload was begun with {upload['size']} bytes")
        if asked[1] is not None:
            self.take_piece(data, body, int(asked[1]), int(asked[2]), size)
        elif body:
            raise Refusal(400, "invalid", "A status query has no body")
        if size is not None and len(data) == size:
            upload["done"] = self.store(upload["bucket"], upload["query"], upload["told"],
                                        headers, bytes(data))
            return upload["done"]
        return 308, [("Range", f"bytes=0-{len(data) - 1}")] if data else [], b""

    def take_piece(self, data, body, first, last, size):
        if last - first + 1 != len(body) or size is not None and last >= size:
            raise Refusal(400, "invalid", "Content-Range does not fit the body")
        if first > len(data):
            raise Refusal(400, "invalid", f"Bytes from {len(data)} on are missing")
        if (size is None or last + 1 < size) and len(body) % UNIT:
            raise Refusal(400, "invalid", "A piece is no multiple of 256 KiB")
        new = body[len(data) - first:]
        data += new[:self.piece_bytes_max] if self.piece_bytes_max else new

    def name_of(self, query, told):
        name = query.get("name") or told.get("name")
        if not isinstance(name, str) or not name:
            raise Refusal(400, "required", "Required")
        if told.get("name", name) != name or len(name.encode()) > 1024 \
                or name in (".", "..") or re.search(r"[\r\n]", name):
            raise Refusal(400, "invalid", "Invalid object name")
        return name

    def store(self, bucket_name, query, told, headers, data):
        bucket, name = self.bucket(bucket_name), self.name_of(query, told)
        self.check_conditions(bucket, name, query)
        hashes = hashes_of(data)
        claimed = {"crc32c": told.get("crc32c"), "md5Hash": told.get("md5Hash")}
        for text in headers.get_all("X-Goog-Hash") or []:
            for key, value in (item.strip().split("=", 1) for item in text.split(",")):
                claimed[{"md5": "md5Hash"}.get(key, key)] = value
        for key, label in (("crc32c", "CRC32C"), ("md5Hash", "MD5")):
            if claimed[key] not in (None, hashes[key]):
                raise Refusal(400, "invalid", f'Provided {label} "{claimed[key]}" doesn\'t match '
                              f'calculated {label} "{hashes[key]}".')
        metadata = told.get("metadata", {})
        if not isinstance(metadata, dict) or any(not isinstance(value, str)
                                                 for value in metadata.values()):
            raise Refusal(400, "invalid", "Invalid metadata")
        self.generation += 1
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        description = {
            "kind": "storage#object", "id": f"{bucket_name}/{name}/{self.generation}",
            "name": name, "bucket": bucket_name, "generation": str(self.generation),
            "metageneration": "1", "size": str(len(data)), "storageClass": "STANDARD",
            "contentType": told.get("contentType", "application/octet-stream"),
            "etag": f"E{self.generation}", "timeCreated": now, "updated": now, **hashes}
        if metadata:
            description["metadata"] = metadata
        bucket[name] = (description, bytes(data))
        return 200, [], description


def json_of(body):
    try:
        value = json.loads(body or b"{}")
    except ValueError as error:
        raise Refusal(400, "parseError", "Parse Error") from error
    if not isinstance(value, dict):
        raise Refusal(400, "parseError", "Parse Error")
    return value


def parts_of(content_type, body):
    """Of multipart/related: the description and the bytes, divided exactly."""
    found = re.fullmatch(r'multipart/related;\s*boundary="?([^";]+)"?', content_type)
    if not found:
        raise Refusal(400, "badContent", "Not multipart/related")
    fence = b"--" + found[1].encode()
    parts = (b"\r\n" + body).split(b"\r\n" + fence)
    if len(parts) != 4 or parts[0] or parts[3].strip(b"\r\n") != b"--":
        raise Refusal(400, "badContent", "Malformed multipart body")
    heads_and_bodies = [part.split(b"\r\n\r\n", 1) for part in parts[1:3]]
    if any(len(pair) != 2 for pair in heads_and_bodies):
        raise Refusal(400, "badContent", "A part has no end of its headers")
    head, data = heads_and_bodies[1]
    told = json_of(heads_and_bodies[0][1])
    kind = re.search(rb"content-type:\s*([^\r\n]+)", head, re.IGNORECASE)
    if kind:
        told.setdefault("contentType", kind[1].decode())
    return told, data
