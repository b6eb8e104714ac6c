// What an argument of `tern store` means: an object, or everything below a name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cloud/open_store.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace CLI {
class App;
}

namespace tern {

struct FoundObject {
  ObjectInfo object;     // under its name in the store
  std::string relative;  // below what was asked for; of a single object the last part of its name
};

struct FoundObjects {
  std::unique_ptr<ObjectStore> store;
  bool has_single = false;         // the first is the object (or file) of exactly that name
  std::vector<FoundObject> found;  // then those below it
  // Below it too, but with names that no store of ours takes: "folder/", "a//b".
  std::vector<ObjectInfo> left_out;

  int64_t bytes() const;
};

// What commands of `tern store` begin with: parses the flags that `app` was told of, and the URI.
// Nothing if help was asked for, which is printed then.
Result<std::optional<StoreAddress>> parse_uri(CLI::App& app, const Arguments& arguments,
                                              std::string_view name, std::string_view help);

// Whether it is an empty object that stands for a folder, as web consoles make them: without it
// nothing is lost.
bool is_folder_mark(const ObjectInfo& object);

// "3 objects with names that tern does not take (..., such as 'a//b')". REQUIRES: there is one.
std::string describe_left_out(const std::vector<ObjectInfo>& left_out);

// One listing, with its progress. Nothing found is no error.
Result<FoundObjects> find_objects(CloudDoor& door, Clock& clock, const StoreAddress& address);

// "64M", "110K", "1G", "5000": bytes, by 1024. `invalid`, naming the flag, for what is none, or is
// outside of [min, max].
Result<int64_t> parse_size(const std::string& flag, const std::string& text, int64_t min,
                           int64_t max);

}  // namespace tern
