// What of a program's checkpoint folder is in the run's store. Format: docs/format_program.md.
//
// Files are put first, each under a name of its own; then a manifest that lists all of them is
// created under the next number. A manifest that is there is whole, and so is what it lists; what
// none lists was never saved. Numbers are never reused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct SavedFile {
  std::string path;  // in the folder, parts separated by '/'
  int64_t size_bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
  std::string object;  // where its bytes are in the run's store

  bool operator==(const SavedFile&) const = default;
};

struct Manifest {
  int64_t number = 0;
  int64_t unix_ms = 0;
  std::string writer;  // the process, by a random name
  std::vector<SavedFile> files;

  int64_t size_bytes() const;
};

// Of the run's store.
inline constexpr char kManifestPrefix[] = "program/manifests/";
inline constexpr char kFilePrefix[] = "program/files/";

std::string manifest_object(int64_t number);
Bytes format_manifest(const Manifest& manifest);
// `corrupt` for anything that format_manifest() did not write for this number, to the last bit.
Result<Manifest> parse_manifest(BytesView text, int64_t number);

// Numbers of all that are in the store, lowest first.
Result<std::vector<int64_t>> list_manifests(ObjectStore& run);
Result<Manifest> read_manifest(ObjectStore& run, int64_t number);

}  // namespace tern
