#include "report/class_names.h"

#include <sstream>

namespace tern {

Result<std::vector<std::string>> read_class_names(ObjectStore& run) {
  constexpr int64_t kBytesMax = 64 << 20;
  const Result<ObjectInfo> info = run.stat(kClassNamesObject);
  if (!info || info->size_bytes > kBytesMax) return std::vector<std::string>();
  const Result<Bytes> text = run.get(kClassNamesObject);
  if (!text) return text.error();
  std::vector<std::string> names;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) names.push_back(std::move(line));
  return names;
}

}  // namespace tern
