// Azure Blob storage.
#pragma once

#include "cloud/open_store.h"

namespace tern {

// Looks for credentials (azure_credentials.h); `invalid` for a variable that is set to something
// unusable. Where no variable has any, the machine's managed identity is asked at the first
// request, which is `failed_precondition`, with where was looked, if there is none. The transport
// outlives it.
Result<std::unique_ptr<Bucket>> open_azure(const StoreAddress& address,
                                           const CloudSurroundings& surroundings,
                                           CloudTransport& transport, const BucketOptions& options);

}  // namespace tern
