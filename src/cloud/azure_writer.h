// Writes objects of Azure Blob storage, large ones as blocks at once.
#pragma once

#include <string>
#include <vector>

#include "cloud/azure_client.h"
#include "cloud/azure_reader.h"
#include "cloud/bucket.h"
#include "cloud/nonce.h"

namespace tern {

// Part of its store. Safe from any thread; every call blocks. Every request with bytes carries
// their MD5, which the store checks.
class AzureWriter {
 public:
  enum class Mode { replace, create };

  // Both outlive it.
  AzureWriter(AzureClient& client, AzureReader& reader, const BucketOptions& options);

  // As ObjectStore::put() and create(). A create() that finds the name taken may have taken it
  // itself: its object has its nonce.
  Status write(const std::string& name, BytesView bytes, Mode mode);

 private:
  struct Write {
    const std::string& name;
    BytesView bytes;
    Mode mode;
    std::string nonce;
  };

  static void add_condition(AzureRequest& request, const Write& write);
  Status write_whole(const Write& write);
  Status write_blocks(const Write& write);
  // Uploads the blocks; returns their ids.
  Result<std::vector<std::string>> stage(const std::string& name, BytesView bytes);
  Result<HttpAnswer> commit(const Write& write, const std::vector<std::string>& ids);
  Result<Writer> writer_of_what_is_there(const Write& write);
  // What an answer that is not success means.
  Status refused(const Write& write, const HttpAnswer& answer);

  AzureClient& client_;
  AzureReader& reader_;
  const BucketOptions options_;
};

}  // namespace tern
