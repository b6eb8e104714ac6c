// Writes objects of Azure Blob storage, large ones as blocks at once.
#pragma once

#include <string>
#include <vector>

#include "cloud/azure_client.h"
#include "cloud/azure_reader.h"
#include "cloud/bucket.h"

namespace tern {

// Part of its store. Safe from any thread; every call blocks. Every request with bytes carries
// their MD5, which the store checks.
class AzureWriter {
 public:
  enum class Mode { replace, create };

  // Both outlive it.
  AzureWriter(AzureClient& client, AzureReader& reader, const BucketOptions& options);

  // As ObjectStore::put() and create(). A create-only write whose answer was lost finds its own
  // object when asked again: it is ours if it has our bytes.
  Status write(const std::string& name, BytesView bytes, Mode mode);

 private:
  Status write_whole(const std::string& name, BytesView bytes, Mode mode);
  Status write_blocks(const std::string& name, BytesView bytes, Mode mode);
  // Uploads the blocks; returns their ids.
  Result<std::vector<std::string>> stage(const std::string& name, BytesView bytes);
  Result<CloudAnswer> commit(const std::string& name, const std::vector<std::string>& ids,
                             Mode mode);
  // What an answer that is not success means.
  Status refused(const std::string& name, BytesView bytes, Mode mode, const CloudAnswer& answer);

  AzureClient& client_;
  AzureReader& reader_;
  const BucketOptions options_;
};

}  // namespace tern
