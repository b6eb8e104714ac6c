#!/usr/bin/env python3
"""Writes the first inputs of the fuzzers into fuzz/corpus/TARGET: small files of every kind that
the parsers know, all made here. What the fuzzers found since lies beside them under other names.

Usage: make_seeds.py      needs Pillow
"""
import bz2
import gzip
import io
import json
import lzma
import pathlib
import struct
import tarfile
import zipfile
import zlib

from PIL import Image

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
# The last byte of an input for take_choice() of fuzz.h; each target says what its bits mean.
PLAIN, SIGNED, PACKED = b"\x00", b"\x01", b"\x03"


def keep(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed_{name}").write_bytes(data)


def part(data):
    return struct.pack("<H", len(data)) + data


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def picture(mode, width, height):
    image = Image.new("RGB", (width, height))
    image.putdata([(x * 255 // width, y * 255 // height, (x * y * 7) % 256)
                   for y in range(height) for x in range(width)])
    return image.convert(mode)


def encoded(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def jpegs():
    def jpeg(name, mode, width, height, **options):
        data = encoded(picture(mode, width, height), "JPEG", **options)
        keep("jpeg", name, data)
        return data

    turned = Image.Exif()
    turned[0x0112] = 6
    colour = jpeg("colour_420", "RGB", 33, 17, quality=75)
    jpeg("colour_444", "RGB", 16, 16, quality=90, subsampling=0)
    jpeg("colour_422", "RGB", 40, 9, quality=50, subsampling=1)
    progressive = jpeg("progressive", "RGB", 24, 40, quality=60, progressive=True)
    jpeg("grey", "L", 9, 9)
    jpeg("cmyk", "CMYK", 17, 8, quality=60)
    jpeg("restarts", "RGB", 48, 32, quality=40, restart_marker_blocks=2)
    jpeg("turned", "RGB", 20, 10, exif=turned.tobytes(), comment=b"upside")
    jpeg("one_pixel", "RGB", 1, 1)
    keep("jpeg", "cut", colour[:-60])
    keep("jpeg", "progressive_cut", progressive[:-100])
    keep("jpeg", "a_png", encoded(picture("RGB", 8, 8), "PNG"))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width, height, depth, colour, interlace, rows, *between, pack=zlib.compress):
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)) +
            b"".join(between) + chunk(b"IDAT", pack(rows)) + chunk(b"IEND", b""))


def pngs():
    for mode in ("RGB", "RGBA", "P", "L", "LA", "1", "I;16"):
        image = picture("L" if mode == "I;16" else mode.replace("P", "RGB"), 11, 7)
        image = image.quantize(5) if mode == "P" else image
        image = image.convert("I").convert("I;16") if mode == "I;16" else image
        keep("png", mode.lower().replace(";", ""), encoded(image, "PNG") + SIGNED)
    # Seven passes of a 3x3 image: those that have no pixels have no rows.
    passes = [(1, 1), (1, 1), (2, 1), (1, 2), (3, 1)]
    grey = b"".join((b"\x00" + b"\x40" * width) * height for width, height in passes)
    keep("png", "interlaced", png_of(3, 3, 8, 0, 1, grey) + SIGNED)
    keep("png", "rgb_16_bits", png_of(2, 2, 16, 2, 0, (b"\x02" + b"\x12\x34" * 6) * 2) + SIGNED)
    keep("png", "grey_key", png_of(4, 2, 4, 0, 0, b"\x00\x12\x34" * 2,
                                   chunk(b"gAMA", struct.pack(">I", 45455)),
                                   chunk(b"tRNS", b"\x00\x03")) + SIGNED)
    # Rows that the target compresses, each with another filter.
    rows = b"".join(bytes([y]) + bytes(range(y, y + 9)) for y in range(5))
    keep("png", "rows", png_of(3, 5, 8, 2, 0, rows, pack=bytes) + PACKED)
    keep("png", "palette_rows", png_of(5, 2, 2, 3, 0, b"\x00\x1b\x00\x02\xe4\x40",
                                       chunk(b"PLTE", bytes(range(12))), chunk(b"tRNS", b"\x07"),
                                       pack=bytes) + PACKED)
    keep("png", "interlaced_rows", png_of(3, 3, 8, 0, 1, grey, pack=bytes) + PACKED)
    # EXIF: a TIFF of one entry that says that the image lies on its side.
    tiff = b"MM\x00*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0)
    keep("png", "on_its_side", png_of(3, 5, 8, 2, 0, rows, chunk(b"eXIf", tiff)) + SIGNED)
    keep("png", "unsigned", encoded(picture("RGB", 5, 5), "PNG") + PLAIN)


def tar_of(files, format=tarfile.USTAR_FORMAT, headers=None, links=()):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.pax_headers = headers or {}
            tar.addfile(member, io.BytesIO(data))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.LNKTYPE, target
            tar.addfile(member)
    # Python pads to 10,240 bytes: two blocks of zeros are enough.
    used = -(-len(file.getvalue().rstrip(b"\x00")) // 512) * 512
    return file.getvalue()[:used] + bytes(1024)


def gnu_sparse(data):
    """A member of type S: 4 bytes at 600 in a file of 2000, in GNU's old way."""
    name = b"sparse".ljust(100, b"\x00") + b"0000644\x00" + b"0000000\x00" * 2
    name += b"%011o\x00" % len(data) + b"%011o\x00" % 0 + b" " * 8 + b"S" + bytes(100)
    name += b"ustar  \x00" + bytes(64 + 16 + 41)
    name += b"%011o\x00%011o\x00" % (600, len(data)) + bytes(24 * 3) + b"\x00" + b"%011o\x00" % 2000
    header = name.ljust(512, b"\x00")
    header = header[:148] + b"%06o\x00 " % sum(header) + header[156:]
    return header + data.ljust(512, b"\x00") + bytes(1024)


def zip_of(files, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def zstd_of(data):
    """A frame of one raw block; the standard library cannot compress it."""
    return (b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) +
            struct.pack("<I", len(data) << 3 | 1)[:3] + data)


def archives():
    files = [("a/b.jpg", b"some bytes" * 20), ("c.cls", b"7"), ("empty", b"")]
    plain = tar_of(files)
    long_names = [("d/" * 60 + "e.txt", b"x"), ("\u00e9.png", b"y")]
    nested = tar_of([("n.tar", plain), ("z.tar", gzip.compress(plain, mtime=0))])
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s",
              "GNU.sparse.realsize": "2000"}
    holes = b"1\n600\n4\n".ljust(512, b"\x00") + b"data"
    made = {
        "tar": plain,
        "gnu": tar_of(long_names, tarfile.GNU_FORMAT),
        "pax": tar_of(long_names, tarfile.PAX_FORMAT),
        "sparse": gnu_sparse(b"data"),
        "sparse_pax": tar_of([("s", holes)], tarfile.PAX_FORMAT, sparse),
        "links": tar_of(files, links=[("l.jpg", "a/b.jpg"), ("m", "l.jpg"), ("n", "gone")]),
        "leaves": tar_of([("../outside", b"x")]),
        "nested": nested,
        "gz": gzip.compress(plain, mtime=0),
        "bz2": bz2.compress(plain),
        "xz": lzma.compress(plain, preset=0),
        "lzma": lzma.compress(plain, format=lzma.FORMAT_ALONE, preset=0),
        "zst": zstd_of(plain),
        "zip_stored": zip_of(files, zipfile.ZIP_STORED),
        "zip_deflated": zip_of(files, zipfile.ZIP_DEFLATED),
        "zip_tar": zip_of([("in.tar", plain)], zipfile.ZIP_DEFLATED),
    }
    for name, data in made.items():
        keep("archive", name, data + b"\x0b")  # signed, asked for its place, walked into


class Mat:
    """As MatWriter in src/import/test_mat.h."""

    def __init__(self, order):
        self.order = order

    def pack(self, format, *values):
        return struct.pack(self.order + format, *values)

    def element(self, kind, data):
        return self.pack("II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(self, kind, sizes, name, rest):
        return self.element(14, self.element(6, self.pack("II", kind, 0)) +
                            self.element(5, self.pack(f"{len(sizes)}i", *sizes)) +
                            self.element(1, name) + rest)

    def synsets(self, rows):
        fields = [b"ILSVRC2012_ID", b"WNID", b"words", b"children"]
        values = b""
        for number, wnid, words in rows:
            values += self.matrix(6, [1, 1], b"", self.element(9, self.pack("d", number)))
            for text in (wnid, words):
                wide = b"".join(self.pack("H", ord(c)) for c in text)
                values += self.matrix(4, [1, len(text)], b"", self.element(4, wide))
            values += self.matrix(6, [0, 0], b"", self.element(9, b""))
        return self.matrix(2, [len(rows), 1], b"synsets",
                           self.pack("IHH", 4 << 16 | 5, *self.split(32)) +
                           self.element(1, b"".join(f.ljust(32, b"\x00") for f in fields)) + values)

    def split(self, number):
        return (number, 0) if self.order == "<" else (0, number)

    def file(self, elements):
        text = b"MATLAB 5.0 MAT-file".ljust(124)
        return text + self.pack("H", 0x0100) + (b"IM" if self.order == "<" else b"MI") + elements


def mats():
    rows = [(1, "n01", "tench"), (2, "n02", "g\u00f6ldfish"), (1001, "n03", "animal")]
    for name, order in (("little", "<"), ("big", ">")):
        mat = Mat(order)
        synsets = mat.synsets(rows)
        truth = part(b"1\n2\n1\n")
        keep("mat", name, truth + mat.file(synsets) + PLAIN)
        keep("mat", name + "_recompressed", truth + mat.file(synsets) + SIGNED)
        packed = zlib.compress(synsets)
        other = mat.matrix(6, [2, 2], b"other", mat.element(9, bytes(32)))
        keep("mat", name + "_compressed", truth + mat.file(
            other + mat.pack("II", 15, len(packed)) + packed) + PLAIN)


def idx_of(magic, sizes, data):
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + data


def idxs():
    labels = idx_of(0x801, [3], bytes([0, 9, 5]))
    grey = idx_of(0x803, [3, 4, 5], bytes(range(60)))
    colour = idx_of(0x804, [3, 3, 2, 2], bytes(range(36)))
    packed = gzip.compress(labels, mtime=0)
    keep("idx", "grey", part(labels) + grey)
    keep("idx", "colour", part(labels) + colour)
    keep("idx", "packed", part(packed) + gzip.compress(grey, mtime=0))
    keep("idx", "empty", part(idx_of(0x801, [0], b"")) + idx_of(0x803, [0, 4, 5], b""))
    keep("idx", "exchanged", part(grey) + labels)
    keep("idx", "huge", part(labels) + idx_of(0x804, [0xFFFFFFFF] * 4, b"few"))


def cifars():
    # 16: a part is labels, of which the target makes whole records. 32: below a folder.
    def file(number, data, flags=16):
        return bytes([number | flags]) + part(data)

    ten = b"".join(file(i, bytes([i, 9])) for i in range(6))
    names = b"".join(b"class%d\n" % i for i in range(10))
    hundred = b"".join(file(i, bytes([1, 99, 0, 7])) for i in (7, 8))
    fine = b"".join(b"f%d\n" % i for i in range(100))
    keep("cifar", "ten", ten)
    keep("cifar", "ten_named", ten + file(6, names, 0) + file(10, b"about", 0))
    keep("cifar", "ten_below", b"".join(file(i, b"\x01", 48) for i in range(6)))
    keep("cifar", "hundred", hundred + file(9, fine, 0))
    keep("cifar", "both", ten + hundred + file(9, fine, 0))
    keep("cifar", "label", file(0, b"\x0a"))
    keep("cifar", "length", file(0, b"not a record", 0))
    keep("cifar", "record", file(0, bytes([3]) + bytes(3072), 0))


def index_of(samples, files, about):
    names = b""
    entries = b""
    for name, offset, length, file, label, kind in samples:
        entries += struct.pack("<QQIIIIHHBBBB", offset, len(names), length, 7, file, label, *kind)
        names += part(name)
    rows = b""
    for path, size in files:
        rows += struct.pack("<QQ", len(names), size)
        names += part(path)
    at, sections, body = 176, b"", b""
    for section in (entries, rows, names, json.dumps(about).encode()):
        body += bytes(-at % 8) + section
        at += -at % 8
        sections += struct.pack("<QQII", at, len(section), crc32c(section), 0)
        at += len(section)
    checked = bytes(range(32)) + struct.pack("<QQQQ", at, len(samples), len(samples) // 2,
                                             len(files)) + sections
    return b"TERNSET1" + struct.pack("<II", 1, crc32c(checked)) + checked + body


def indexes():
    about = {"source": "a test", "representation": "orig", "root": "", "classes": ["a", "b\u00e9"],
             "class_titles": ["A", "B"], "mean": [0.5, 0.25, 1e-3], "stddev": [0.1, 0.2, 0.3],
             "pixels_from": 4, "bad": [{"name": "x", "cause": "cut"}], "tern_version": "0"}
    kinds = [(32, 16, 1, 3, 6, 1), (2, 3, 0, 1, 1, 0), (9, 9, 2, 3, 1, 0)]
    samples = [(b"a/1.jpg", 16, 300, 0, 0, kinds[0]), (b"2", 400, 6, 1, 1, kinds[1]),
               (b"\xff.png", 600, 0, 0, 1, kinds[2]), (b"", 0, 6, 1, 0, kinds[1])]
    files = [(b"shards/000.tern", 1000), (b"x..y", 406)]
    whole = index_of(samples, files, about)
    nothing = index_of([], [], {**about, "classes": [], "class_titles": [], "bad": []})
    keep("index", "plain", whole + PLAIN)
    keep("index", "signed", whole + SIGNED)
    keep("index", "stretched", whole + b"\x03")
    keep("index", "empty", nothing + SIGNED)
    keep("index", "outside", index_of(samples, [(b"../x", 1000), (b"/y", 406)], about) + SIGNED)


def shard_of(samples):
    body = b"TERNSHD1" + struct.pack("<II", 1, 0)
    index = struct.pack("<Q", len(samples))
    for name, label, cause, payload, kind in samples:
        place = (0, 0, 0)
        if not cause:
            checksum = crc32c(payload)
            body += b"RCRD" + struct.pack("<III", len(payload), checksum, len(name)) + name
            place = (len(body), len(payload), checksum)
            body += payload + bytes(-(len(body) + len(payload)) % 8)
        index += struct.pack("<QIIHHBBBBHHHH", *place, *kind, len(name), len(label), len(cause), 0)
        index += name + label + cause
    return body + index + struct.pack("<QQII", len(body), len(index), crc32c(index),
                                      len(samples)) + b"TERNEND1"


def shards():
    samples = [(b"a/1.jpg", b"a", b"", b"pretend", (32, 16, 1, 3, 6, 1)),
               (b"2", b"b", b"", bytes(range(6)), (2, 3, 0, 1, 1, 2)),
               (b"3.png", b"", b"it is cut short", b"", (0, 0, 0, 3, 1, 0))]
    keep("shard", "plain", shard_of(samples) + b"\x04")
    keep("shard", "signed", shard_of(samples) + b"\x05")
    keep("shard", "stretched", shard_of(samples) + b"\x03")
    keep("shard", "empty", shard_of([]) + b"\x05")
    keep("shard", "bad_only", shard_of(samples[2:]) + SIGNED)


def safetensors_of(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def pickled_tensor(name, sizes):
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value

    return (text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") +
            b"ctorch\nFloatStorage\nq\x01" + text(b"0") + text(b"cpu") + b"K\x06tQK\x00" + sizes +
            b"\x89ccollections\nOrderedDict\n)RtR")


def weights():
    plain, zipped, pickled = b"\x00", b"\x01", b"\x02"  # try_weights() of fuzz_safetensors.cc
    good = {"__metadata__": {"format": "pt"}, "a.weight": tensor("F32", [2, 3], 0, 24),
            "b": tensor("BF16", [2], 24, 28), "step": tensor("I64", [], 28, 36)}
    data = bytes(range(36))
    keep("safetensors", "good", safetensors_of(good, data) + plain)
    keep("safetensors", "truncated", safetensors_of(good, data[:-1]) + plain)
    keep("safetensors", "overlapping", safetensors_of(
        {"a": tensor("U8", [8], 0, 8), "b": tensor("U8", [8], 4, 12)}, data[:12]) + plain)
    keep("safetensors", "huge_header", safetensors_of(good, data, 2**63 - 1) + plain)
    keep("safetensors", "huge_shape", safetensors_of(
        {"a": tensor("F32", [2**31, 2**31], 0, 4)}, data[:4]) + plain)
    keep("safetensors", "deep", safetensors_of(b'{"a":' + b"[" * 500, b"") + plain)
    square = b"K\x02K\x03\x86K\x03K\x01\x86"
    turned = b"K\x03K\x02\x86K\x01K\x03\x86"
    state = (b"\x80\x02ccollections\nOrderedDict\n)R(" + pickled_tensor(b"w", square) +
             pickled_tensor(b"v", turned) + b"u.")
    keep("safetensors", "pickle", state + pickled)
    keep("safetensors", "pickle_nested", b"\x80\x02}X\x05\x00\x00\x00modelh\x00s." + pickled)
    keep("safetensors", "pickle_code", b"cos\nsystem\n(X\x02\x00\x00\x00lstR." + pickled)
    files = [("archive/data.pkl", state), ("archive/byteorder", b"little"),
             ("archive/data/0", bytes(24))]
    keep("safetensors", "zip", zip_of(files, zipfile.ZIP_STORED) + zipped)
    keep("safetensors", "zip_deflated", zip_of(files, zipfile.ZIP_DEFLATED) + zipped)


def s3s():
    """The last byte is the status, by its place in try_s3() of fuzz_s3.cc."""
    def document(name, inside):
        return (f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="http://s3.amazonaws.com/'
                f'doc/2006-03-01/">{inside}</{name}>').encode()

    def error(code, more=""):
        return (f"<Error><Code>{code}</Code><Message>no</Message>{more}<RequestId>1</RequestId>"
                "</Error>").encode()

    contents = ("<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                "<ETag>&quot;1&quot;</ETag><Size>{}</Size></Contents>")
    upload = ("<Upload><Key>a%20b</Key><UploadId>u1</UploadId>"
              "<Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>")
    more = "<IsTruncated>true</IsTruncated>"
    url = "<EncodingType>url</EncodingType>"
    keep("s3", "list", document("ListBucketResult", contents.format("a/b", 5) +
                                contents.format("&#233;&amp;", 0)) + b"\x00")
    keep("s3", "list_goes_on", document("ListBucketResult", url + more + "<NextContinuationToken>"
                                        "x=</NextContinuationToken>" +
                                        contents.format("a%2Bb+c", 5)) + b"\x00")
    keep("s3", "uploads", document("ListMultipartUploadsResult", url + upload + more +
                                   "<NextKeyMarker>k</NextKeyMarker>"
                                   "<NextUploadIdMarker>u</NextUploadIdMarker>") + b"\x00")
    keep("s3", "upload_begun", document("InitiateMultipartUploadResult",
                                        "<UploadId>u1</UploadId>") + b"\x00")
    keep("s3", "upload_done", document("CompleteMultipartUploadResult",
                                       "<ETag>1</ETag>") + b"\x00")
    keep("s3", "removal", document("DeleteResult", "<Error><Key>a</Key><Code>AccessDenied</Code>"
                                   "</Error>") + b"\x00")
    keep("s3", "late_error", error("InternalError") + b"\x00")
    keep("s3", "no_key", error("NoSuchKey") + b"\x06")
    keep("s3", "denied", error("AccessDenied") + b"\x05")
    keep("s3", "signature", error("SignatureDoesNotMatch") + b"\x05")
    keep("s3", "skewed", error("RequestTimeTooSkewed") + b"\x05")
    keep("s3", "elsewhere", error("PermanentRedirect", "<Region>eu-west-1</Region>") + b"\x02")
    keep("s3", "page", b"<html><body>It works!</body></html>\x00")
    keep("s3", "region_header", b"eu-west-1\x86")


def azures():
    """The last byte is the status and, from 64 and 128, which headers: fuzz_azure.cc."""
    def blob(name, more="", properties="<Content-Length>5</Content-Length>"):
        return f"<Blob>{name}{more}<Properties>{properties}</Properties></Blob>"

    def listing(inside, marker=""):
        return ('\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults>'
                f"<Blobs>{inside}</Blobs><NextMarker>{marker}</NextMarker>"
                "</EnumerationResults>").encode()

    def error(code):
        return (f'\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code>'
                "<Message>no\nRequestId:1</Message></Error>").encode()

    keep("azure", "list", listing(blob("<Name>a/b</Name>") +
                                  blob('<Name Encoded="true">c%EF%BF%BE</Name>')) + b"\x00")
    folder = "<ResourceType>directory</ResourceType>"
    keep("azure", "list_goes_on", listing(blob("<Name>d</Name>", "", folder), "2!8!x") + b"\x00")
    keep("azure", "denied", error("AuthorizationPermissionMismatch") + b"\x06")
    keep("azure", "refused", error("AuthenticationFailed") + bytes([6 + 13 * 5]))
    keep("azure", "no_container", error("ContainerNotFound") + b"\x07")
    keep("azure", "busy", error("ServerBusy") + b"\x0c")
    keep("azure", "date", b"Wed, 15 Nov 2023 12:00:00 GMT" + bytes([6 + 13 * 5]))
    keep("azure", "code_header", b"AuthenticationFailed" + bytes([6 + 13 * 10]))
    keep("azure", "token", b'{"access_token":"ey.x","expires_in":"3599","expires_on":"1"}\x00')
    keep("azure", "page", b"<html><body>It works!</body></html>\x00")


def ranks():
    """Parts that happen one after the other: fuzz_ranks.cc. An odd last byte asks for the hub."""
    def number(value):
        return struct.pack("<q", value)

    def text(value):
        return struct.pack("<I", len(value)) + value

    def frame(message, *fields):
        payload = bytes([message]) + b"".join(fields)
        return struct.pack("<I", len(payload)) + payload

    def parts(*happenings):
        return b"".join(struct.pack("<H", len(h)) + h for h in happenings) + b"\x01"

    def says(place, *frames):
        return bytes([place * 8 + 5]) + b"".join(frames)

    first, second = b"\x01", b"\x09"
    join = frame(24, number(1), number(-1), text(b"a"), text(b"x = 1\n"))
    other = frame(24, number(1), number(3), text(b"b"), text(b"x = 2\n"))
    beat = frame(33, number(4), struct.pack("<d", 1.0), text(b"batch 7"))
    keys = (frame(16, number(1), text(b"k"), text(b"v")), frame(17, number(2), text(b"k")),
            frame(18, number(3), text(b"n"), number(-5)),
            frame(19, number(4), text(b"k"), text(b"v"), text(b"w")),
            frame(22, number(5), number(2), text(b"k"), text(b"gone")),
            frame(21, number(6), number(1), text(b"k")), frame(20, number(7), text(b"k")),
            frame(23, number(8)), frame(32, number(5)))
    keep("ranks", "keys", parts(first, says(0, *keys)))
    keep("ranks", "two_join", parts(first, second, says(0, join), says(1, join), says(1, beat),
                                    b"\x02", says(1, join)))
    keep("ranks", "settings_differ", parts(first, second, says(0, join), says(1, other)))
    keep("ranks", "leaves", parts(first, says(0, join), b"\x7b", says(0, frame(34, text(b"done")))))
    keep("ranks", "stranger", parts(b"\x00", says(0, frame(2, b"\x01", text(b"n" * 32), number(0),
                                                         number(1), number(2), text(b"p" * 32)))))
    keep("ranks", "answer", frame(48, number(1), b"\x01", text(b"v")) + frame(
        48, number(1), b"\x01", text(b"\x18" + number(1) + number(0) + number(1) + number(-1) +
                                     number(-1) + text(b"machine 0"))) + b"\x00")
    keep("ranks", "notice", frame(51, b"\x01", text(b"SIGINT"), number(5), number(0),
                                  text(b"id")) + b"\x00")


def torch_stores():
    """Parts that happen one after the other: fuzz_torch_store.cc."""
    def number(value):
        return struct.pack("<q", value)

    def text(value):
        return number(len(value)) + value

    def parts(*happenings):
        return b"".join(struct.pack("<H", len(h)) + h for h in happenings)

    def says(place, *queries):
        return bytes([place * 8 + 5]) + b"".join(queries)

    opened = b"\x10"
    keys = (b"\x01" + text(b"k") + text(b"v"), b"\x02" + text(b"k") + text(b"v") + text(b"w"),
            b"\x03" + text(b"k"), b"\x04" + text(b"n") + number(-5), b"\x05" + number(1) + text(b"k"),
            b"\x07", b"\x08" + text(b"k"), b"\x09" + text(b"l") + text(b"more"),
            b"\x0a" + number(2) + text(b"l") + text(b"gone"),
            b"\x0b" + number(1) + text(b"m") + text(b"1"), b"\x0d" + b"ping", b"\x11")
    wait = b"\x06" + number(2) + text(b"k") + text(b"q")
    keep("torch_store", "keys", parts(opened, says(0, *keys)))
    keep("torch_store", "waits", parts(opened, opened, says(0, wait), says(1, keys[0]),
                                       says(1, b"\x0e" + text(b"q") + text(b"piece")),
                                       says(0, b"\x0f" + text(b"q"), b"\x10" + text(b"q"), b"\x0c")))
    keep("torch_store", "stranger", parts(b"\x08", says(0, b"GET / HTTP/1.1\r\n"), b"\xfa"))


if __name__ == "__main__":
    for make in (jpegs, pngs, archives, mats, idxs, cifars, indexes, shards, weights, s3s, azures,
                 ranks, torch_stores):
        make()
