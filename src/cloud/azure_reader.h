// Reads objects of Azure Blob storage, large ones in parts at once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cloud/azure_client.h"
#include "cloud/bucket.h"

namespace tern {

// Part of its store. Safe from any thread; every call blocks.
class AzureReader {
 public:
  // The client outlives it.
  AzureReader(AzureClient& client, const BucketOptions& options);

  // As ObjectStore::get_range(); a length of INT64_MAX is "all". What is above two parts is read in
  // parts with If-Match, so that all bytes are of one version; read anew if it was replaced
  // meanwhile, and in one piece if that happens again and again. An object that was stored with its
  // MD5 is checked where it comes in one answer.
  Result<Bytes> read(const std::string& name, int64_t offset, int64_t length);
  std::vector<Result<Bytes>> read_all(std::span<const ObjectRange> ranges);
  Result<ObjectInfo> stat(const std::string& name);
  // Of its metadata (nonce.h); empty if it has none.
  Result<std::string> nonce_of(const std::string& name);

 private:
  struct Piece {
    Bytes bytes;
    int64_t total = 0;  // of the object
    std::string etag;
    std::string md5;  // of the object, if it was stored with one
  };

  // The answer to a HEAD, if it says that the object is there.
  Result<HttpAnswer> look(const std::string& name);
  AzureRequest request_for(const ObjectRange& range, const std::string& etag) const;
  Result<Piece> piece_of(const ObjectRange& range, HttpAnswer answer);
  Result<Piece> end_of(const ObjectRange& range, const HttpAnswer& answer);
  // Nothing: another version than that of the parts before, or bytes that do not fit their MD5.
  Result<std::optional<Bytes>> read_once(const ObjectRange& range, int64_t first_bytes);
  Result<std::optional<Bytes>> read_rest(const ObjectRange& range, Piece first);

  AzureClient& client_;
  const BucketOptions options_;
};

}  // namespace tern
