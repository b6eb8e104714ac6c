// Google Cloud Storage, by its JSON interface.
#pragma once

#include "cloud/open_store.h"

namespace tern {

// Looks for credentials (variables and files; a metadata service is asked at the first request).
// `failed_precondition`, with where it looked, if there are none. The transport outlives it.
Result<std::unique_ptr<Bucket>> open_gcs(const StoreAddress& address,
                                         const CloudSurroundings& surroundings,
                                         CloudTransport& transport, const BucketOptions& options);

}  // namespace tern
