#!/usr/bin/env python3
"""Google's own client for Cloud Storage against a server: what it makes of it, as one JSON line.

    gcs_judge.py ENDPOINT BUCKET verbs           what a client does; {"verbs": [...], "ok": true}
    gcs_judge.py ENDPOINT BUCKET digests PREFIX  {name: [bytes, sha256]} of what is there
    gcs_judge.py ENDPOINT BUCKET write PREFIX    objects with odd names, and their digests

Credentials are those of GOOGLE_APPLICATION_CREDENTIALS; without it none are sent. Wants
google-cloud-storage from PyPI. A bucket that is not there is made.
"""

import hashlib
import json
import os
import sys

from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.oauth2 import service_account

ODD_NAMES = [" leading and trailing ", "a b/c d", "plus+sign", "100%", "%2F%2e%2e", "q?x=1&y=2#z",
             "back\\slash", "'quoted\"", "Größe/日本/🐦", "~", "*", "a:b",
             "/".join(["n" * 200] * 4)]
CHUNK = 256 << 10


def connect(endpoint):
    path = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    credentials = AnonymousCredentials()
    if path:
        credentials = service_account.Credentials.from_service_account_file(path)
    return storage.Client(project="judge", credentials=credentials,
                          client_options={"api_endpoint": endpoint})


def expect(error, act):
    try:
        act()
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")


def pattern(size):
    return bytes((i * 7 + i // 251) % 256 for i in range(251)) * (size // 251 + 1)


def check_verbs(client, bucket):
    done = []
    small = bucket.blob("judge/small")
    small.upload_from_string(b"hello", checksum="crc32c")
    assert small.size == 5 and small.download_as_bytes(checksum="crc32c") == b"hello"
    assert bucket.blob("judge/small").exists() and not bucket.blob("judge/absent").exists()
    done += ["upload", "download", "exists"]

    data = pattern(3 * CHUNK + 1000)[:3 * CHUNK + 1000]
    large = bucket.blob("judge/large", chunk_size=CHUNK)
    with large.open("wb", chunk_size=CHUNK) as file:
        file.write(data)
    assert bucket.blob("judge/large").download_as_bytes(checksum="md5") == data
    assert bucket.blob("judge/large").download_as_bytes(start=1000, end=1999) == data[1000:2000]
    done += ["resumable upload", "ranged download"]

    new = bucket.blob("judge/new")
    new.upload_from_string(b"first", if_generation_match=0)
    expect(exceptions.PreconditionFailed,
           lambda: bucket.blob("judge/new").upload_from_string(b"second", if_generation_match=0))
    assert new.download_as_bytes() == b"first"
    done.append("conditional create")

    for i in range(7):
        bucket.blob(f"judge/list/{i}").upload_from_string(str(i))
    pages = list(client.list_blobs(bucket, prefix="judge/list/", page_size=3).pages)
    names = [blob.name for page in pages for blob in page]
    assert names == [f"judge/list/{i}" for i in range(7)] and len(pages) == 3
    done.append("paged list")

    for name in ODD_NAMES:
        bucket.blob("judge/odd/" + name).upload_from_string(name.encode())
    found = {blob.name: blob.download_as_bytes()
             for blob in client.list_blobs(bucket, prefix="judge/odd/")}
    assert found == {"judge/odd/" + name: name.encode() for name in ODD_NAMES}
    done.append("odd names")

    for blob in client.list_blobs(bucket, prefix="judge/"):
        blob.delete()
    expect(exceptions.NotFound, small.delete)
    assert not list(client.list_blobs(bucket, prefix="judge/"))
    return {"verbs": done + ["delete"], "ok": True}


def digest(data):
    return [len(data), hashlib.sha256(data).hexdigest()]


def main():
    endpoint, bucket_name, verb = sys.argv[1:4]
    client = connect(endpoint)
    bucket = client.bucket(bucket_name)
    if not bucket.exists():
        bucket = client.create_bucket(bucket_name)
    if verb == "verbs":
        answer = check_verbs(client, bucket)
    elif verb == "digests":
        answer = {blob.name: digest(blob.download_as_bytes(checksum="crc32c"))
                  for blob in client.list_blobs(bucket, prefix=sys.argv[4])}
    else:
        answer = {}
        for name in ODD_NAMES:
            data = pattern(1000)[:len(name) * 10]
            bucket.blob(sys.argv[4] + name).upload_from_string(data, checksum="crc32c")
            answer[sys.argv[4] + name] = digest(data)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
