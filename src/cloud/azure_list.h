// One page of Azure's answer to "List Blobs".
// https://learn.microsoft.com/rest/api/storageservices/list-blobs
#pragma once

#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct AzurePage {
  std::vector<ObjectInfo> objects;  // in Azure's order
  std::string next;                 // the marker of the next page; empty: this was the last
};

// Without folders of an account with hierarchical names, and with names that check_object_name()
// refuses. `corrupt` for what is no such page.
Result<AzurePage> parse_azure_page(BytesView xml);

}  // namespace tern
