#include "train/weights_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "cloud/open_store.h"
#include "core/hash.h"
#include "core/progress.h"
#include "storage/torch_file.h"

namespace tern {
namespace {

constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kLegacyMagic = "\x80\x02\x8a\x0a";  // its first pickle is a long number
constexpr size_t kTarMagicAt = 257;
constexpr std::string_view kDataParallel = "module.";

Error file_error(int number, const std::string& path) {
  const std::string why = std::strerror(number);
  if (number == ENOENT || number == ENOTDIR) {
    return fail(Code::not_found, fmt::format("there is no file {}; give the path of a .safetensors "
                                             "or .pth file",
                                             path));
  }
  if (number == EACCES || number == EPERM) {
    return fail(Code::permission_denied,
                fmt::format("may not read {}; make it readable for this user", path));
  }
  return fail(Code::unavailable, fmt::format("cannot read {}: {}", path, why));
}

Error too_large(const std::string& name, int64_t bytes, int64_t bytes_max) {
  return fail(Code::exhausted, fmt::format("{} has {}, more than the {} that weights may have",
                                           name, format_bytes(bytes), format_bytes(bytes_max)));
}

Error out_of_memory(const std::string& name) {
  return fail(Code::exhausted,
              fmt::format("{} does not fit in memory; use a machine with more", name));
}

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

// The whole file; its size is known and allowed before memory is taken.
Result<Bytes> read_whole(const std::string& path, int64_t bytes_max) {
  // A pipe must not block the opening; what is no regular file is refused right after.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat about{};
  if (file.number < 0 || fstat(file.number, &about) != 0) return file_error(errno, path);
  if (!S_ISREG(about.st_mode)) {
    return fail(Code::invalid,
                fmt::format("{} is no file; give the path of a .safetensors or .pth file", path));
  }
  if (about.st_size > bytes_max) {
    return too_large(path, about.st_size, bytes_max);
  }
  Bytes bytes(static_cast<size_t>(about.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.number, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(errno, path);
    if (got == 0) {
      return fail(Code::corrupt, fmt::format("{} became shorter while it was read; is it still "
                                             "being written?",
                                             path));
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

bool is_tar(BytesView bytes) {
  return bytes.size() > kTarMagicAt && bytes.substr(kTarMagicAt).starts_with("ustar");
}

// A header of JSON follows the eight bytes of its length, which are checked later.
bool is_safetensors(BytesView bytes) { return bytes.size() > 8 && bytes[8] == '{'; }

Status take_tensors(Bytes bytes, int64_t bytes_max, WeightsFile& file) {
  if (bytes.starts_with(kZipMagic)) {
    ASSIGN_OR_RETURN(TorchTensors tensors, read_torch_file(bytes, bytes_max));
    file.bytes = std::move(tensors.bytes);
    file.tensors = std::move(tensors.tensors);
    return {};
  }
  if (bytes.starts_with(kLegacyMagic) || is_tar(bytes)) {
    return fail(Code::invalid,
                "it is in PyTorch's format of before 1.6, which is not read here; load it with "
                "torch and save it anew, with torch.save(state_dict, FILE) or "
                "safetensors.torch.save_file(state_dict, FILE)");
  }
  if (!is_safetensors(bytes)) {
    return fail(Code::corrupt,
                "it is neither a safetensors file nor one of torch.save(); fetch it again, or "
                "check that it is the right one");
  }
  file.bytes = std::move(bytes);
  ASSIGN_OR_RETURN(file.tensors, parse_safetensors(file.bytes));
  return {};
}

// DataParallel wraps a model as `module`, and many files were saved so.
void unwrap_names(std::vector<TensorView>& tensors) {
  const bool is_wrapped = std::ranges::all_of(tensors, [](const TensorView& tensor) {
    return tensor.name.starts_with(kDataParallel) && tensor.name != kDataParallel;
  });
  if (!is_wrapped) return;
  for (TensorView& tensor : tensors) tensor.name.erase(0, kDataParallel.size());
}

Result<WeightsFile> take_weights(Bytes bytes, int64_t bytes_max, const std::string& name) {
  WeightsFile file;
  file.sha256 = to_hex(sha256(bytes));
  RETURN_IF_ERROR(take_tensors(std::move(bytes), bytes_max, file).at(fmt::format("read {}", name)));
  if (file.tensors.tensors.empty()) {
    return fail(Code::invalid, fmt::format("{} holds no tensor", name));
  }
  unwrap_names(file.tensors.tensors);
  return file;
}

// An object that is there.
struct FoundObject {
  std::shared_ptr<ObjectStore> store;
  ObjectInfo object;
};

Result<FoundObject> find_object(const StoreAddress& address, const StoreOpener& open_store) {
  const std::string name = address.to_string();
  if (!open_store) {
    return fail(Code::invalid, fmt::format("{} is in a bucket, and this needs a file; fetch it: "
                                           "`tern store cp {} .`",
                                           name, name));
  }
  if (address.prefix.empty()) {
    return fail(Code::invalid, fmt::format("{} is a whole bucket; name the object with the "
                                           "weights: {}/weights.safetensors",
                                           name, name));
  }
  const size_t slash = address.prefix.rfind('/');
  StoreAddress folder = address;
  folder.prefix.resize(slash == std::string::npos ? 0 : slash);
  FoundObject found;
  ASSIGN_OR_RETURN(found.store, open_store(folder.to_string()));
  Result<ObjectInfo> object = found.store->stat(
      slash == std::string::npos ? address.prefix : address.prefix.substr(slash + 1));
  if (object) {
    found.object = std::move(*object);
    return found;
  }
  if (object.error().code != Code::not_found) return object.error().at(name);
  return fail(Code::not_found, fmt::format("there is no object {} ({}); `tern store ls {}` shows "
                                           "what is there",
                                           name, object.error().message, folder.to_string()));
}

}  // namespace

Result<WeightsFile> read_weights_file(const std::filesystem::path& path, int64_t bytes_max) try {
  ASSIGN_OR_RETURN(Bytes bytes, read_whole(path.string(), bytes_max));
  return take_weights(std::move(bytes), bytes_max, path.string());
} catch (const std::bad_alloc&) {
  return out_of_memory(path.string());
}

Result<WeightsFile> read_weights(const std::string& place, const StoreOpener& open_store,
                                 int64_t bytes_max) try {
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(place));
  if (address.is_folder()) return read_weights_file(address.prefix, bytes_max);
  ASSIGN_OR_RETURN(const FoundObject found, find_object(address, open_store));
  // Before memory is taken.
  if (found.object.size_bytes > bytes_max) {
    return too_large(place, found.object.size_bytes, bytes_max);
  }
  ASSIGN_OR_RETURN(Bytes bytes, found.store->get(found.object.name).at(place));
  return take_weights(std::move(bytes), bytes_max, place);
} catch (const std::bad_alloc&) {
  return out_of_memory(place);
}

Status find_weights(const std::string& place, const StoreOpener& open_store) {
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(place));
  if (!address.is_folder()) {
    RETURN_IF_ERROR(find_object(address, open_store));
    return {};
  }
  std::error_code ignored;
  if (std::filesystem::exists(address.prefix, ignored)) return {};
  return file_error(ENOENT, address.prefix);
}

}  // namespace tern
