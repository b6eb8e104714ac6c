#include "ranks/process_title.h"

#include <algorithm>
#include <cstring>

namespace tern {

ProcessTitle::ProcessTitle(int argc, char** argv) {
  if (argc < 1) return;
  begin_ = argv[0];
  // The kernel puts them one after the other; whatever is elsewhere is not part of the title.
  const char* end = begin_ + std::strlen(begin_) + 1;
  for (int i = 1; i < argc && argv[i] == end; ++i) end += std::strlen(end) + 1;
  size_ = static_cast<size_t>(end - begin_);
}

void ProcessTitle::set(std::string_view title) {
  if (size_ == 0) return;
  const size_t length = std::min(title.size(), size_ - 1);
  std::memcpy(begin_, title.data(), length);
  std::memset(begin_ + length, '\0', size_ - length);
}

}  // namespace tern
