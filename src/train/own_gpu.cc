#include "train/own_gpu.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "cuda/gpu.h"
#include "ranks/rank_link.h"

namespace tern {
namespace {

constexpr char kVisible[] = "CUDA_VISIBLE_DEVICES";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

Result<std::string> gpu_of_rank(const std::string& visible, int64_t gpus, int64_t index) {
  std::vector<std::string> shown;
  if (visible.empty()) {
    for (int64_t gpu = 0; gpu < gpus; ++gpu) shown.push_back(std::to_string(gpu));
  } else {
    shown = split(visible);
  }
  if (index >= 0 && index < std::ssize(shown)) return shown[static_cast<size_t>(index)];
  return fail(Code::failed_precondition,
              fmt::format("rank {} of this machine has no GPU of its own: {} {} to be used; start "
                          "no more ranks than that, or --set train.device=cpu",
                          index, shown.size(), shown.size() == 1 ? "is" : "are"));
}

Status take_own_gpu(const VariableReader& variable) {
  const char* name = is_supervised(variable) ? kRankIdVariable : "LOCAL_RANK";
  const std::string text = variable(name).value_or("");
  int64_t index = -1;
  std::from_chars(text.data(), text.data() + text.size(), index);
  if (index < 0) return {};
  const auto driver = GpuDriver::open();
  if (!driver) return {};  // choose_device() says what that means
  const auto gpus = (*driver)->gpus();
  if (!gpus || gpus->empty()) return {};
  ASSIGN_OR_RETURN(const std::string own,
                   gpu_of_rank(variable(kVisible).value_or(""), std::ssize(*gpus), index));
  setenv(kVisible, own.c_str(), /*overwrite=*/1);
  return {};
}

}  // namespace tern
