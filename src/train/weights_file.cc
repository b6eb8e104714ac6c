#include "train/weights_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

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
    return fail(Code::exhausted,
                fmt::format("{} has {}, more than the {} that weights may have", path,
                            format_bytes(about.st_size), format_bytes(bytes_max)));
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

}  // namespace

Result<WeightsFile> read_weights_file(const std::filesystem::path& path, int64_t bytes_max) try {
  ASSIGN_OR_RETURN(Bytes bytes, read_whole(path.string(), bytes_max));
  WeightsFile file;
  file.sha256 = to_hex(sha256(bytes));
  RETURN_IF_ERROR(
      take_tensors(std::move(bytes), bytes_max, file).at(fmt::format("read {}", path.string())));
  if (file.tensors.tensors.empty()) {
    return fail(Code::invalid, fmt::format("{} holds no tensor", path.string()));
  }
  unwrap_names(file.tensors.tensors);
  return file;
} catch (const std::bad_alloc&) {
  return fail(Code::exhausted,
              fmt::format("{} does not fit in memory; use a machine with more", path.string()));
}

}  // namespace tern
