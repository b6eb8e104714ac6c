"""The clouds' own clients read what we have stored, and store what we shall read.

Usage: cloud_judge.py write s3|az|gs BUCKET FOLDER    stores the objects of FOLDER/objects.json
       cloud_judge.py read s3|az|gs BUCKET FOLDER     prints JSON of all objects of the bucket

objects.json is a list of {"name": ..., "file": ...}, files being in FOLDER. `read` prints, by name, the
size and SHA-256 of what the client gives, which checksums the store keeps of it (one that differs from the
bytes ends the program with 1), and its metadata. Where the server is and with what keys is in the variables that people
set for these clients. cloud_clients_test.cc is who calls.
"""

import base64
import hashlib
import json
import os
import pathlib
import sys

PART_BYTES = 5 << 20  # larger objects are sent in parts


def crc32c_of(data):
    import google_crc32c

    return base64.b64encode(google_crc32c.Checksum(data).digest()).decode()


def md5_of(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


class S3:
    def __init__(self, bucket):
        import boto3
        from botocore.config import Config

        self.bucket = bucket
        self.client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))

    def write(self, name, data):
        from boto3.s3.transfer import TransferConfig
        import io

        config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
        self.client.upload_fileobj(io.BytesIO(data), self.bucket, name, Config=config)

    def names(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, PaginationConfig={"PageSize": 3}
        )
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def read(self, name):
        # boto3 itself verifies the checksum that the store sends along.
        got = self.client.get_object(Bucket=self.bucket, Key=name, ChecksumMode="ENABLED")
        data = got["Body"].read()
        stored = {}
        etag = got["ETag"].strip('"')
        if len(etag) == 32 and "-" not in etag:
            stored["md5"] = base64.b64encode(bytes.fromhex(etag)).decode()
        if "ChecksumCRC32C" in got and "-" not in got["ChecksumCRC32C"]:
            stored["crc32c"] = got["ChecksumCRC32C"]
        return data, stored, got["Metadata"]


class Azure:
    def __init__(self, bucket):
        from azure.storage.blob import BlobServiceClient

        service = BlobServiceClient.from_connection_string(
            os.environ["AZURE_STORAGE_CONNECTION_STRING"],
            max_single_put_size=PART_BYTES,
            max_block_size=PART_BYTES,
        )
        self.container = service.get_container_client(bucket)

    def write(self, name, data):
        self.container.upload_blob(name, data, validate_content=True)

    def names(self):
        pages = self.container.list_blob_names(results_per_page=3).by_page()
        return [name for page in pages for name in page]

    def read(self, name):
        blob = self.container.get_blob_client(name)
        data = blob.download_blob().readall()
        properties = blob.get_blob_properties()
        md5 = properties.content_settings.content_md5
        return data, {"md5": base64.b64encode(md5).decode()} if md5 else {}, properties.metadata


class Google:
    def __init__(self, bucket):
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage
        from google.oauth2 import service_account

        file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        credentials = AnonymousCredentials()
        if file:
            credentials = service_account.Credentials.from_service_account_file(
                file, scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
            )
        self.bucket = storage.Client(project="tern-tests", credentials=credentials).bucket(bucket)

    def write(self, name, data):
        blob = self.bucket.blob(name, chunk_size=PART_BYTES if len(data) > PART_BYTES else None)
        blob.upload_from_string(data, content_type="application/octet-stream", checksum="crc32c")

    def names(self):
        return [blob.name for blob in self.bucket.client.list_blobs(self.bucket, page_size=3)]

    def read(self, name):
        blob = self.bucket.get_blob(name)
        stored = {"crc32c": blob.crc32c, "md5": blob.md5_hash}
        stored = {kind: value for kind, value in stored.items() if value}
        return blob.download_as_bytes(), stored, blob.metadata


def read_all(cloud):
    said = {}
    for name in cloud.names():
        data, stored, metadata = cloud.read(name)
        for kind, value in stored.items():
            computed = crc32c_of(data) if kind == "crc32c" else md5_of(data)
            if value != computed:
                sys.exit(f"{name}: the store's {kind} is {value}, that of the bytes {computed}")
        said[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(),
                      "stored": sorted(stored), "metadata": metadata or {}}
    return said


def main():
    verb, kind, bucket, folder = sys.argv[1:]
    cloud = {"s3": S3, "az": Azure, "gs": Google}[kind](bucket)
    if verb == "read":
        print(json.dumps(read_all(cloud)))
        return
    for entry in json.loads((pathlib.Path(folder) / "objects.json").read_text(encoding="utf-8")):
        cloud.write(entry["name"], (pathlib.Path(folder) / entry["file"]).read_bytes())


main()
