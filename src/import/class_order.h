// Which label a class gets.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"

namespace tern {

struct ClassOrder {
  std::vector<std::string> names;  // by label
  std::vector<uint32_t> labels;    // by place in `seen`
};

// `seen` are the names that samples have, each once, in any order; the result does not depend on
// it. `given` is what the source says of its classes: if there is any, its order is the labels'.
// Else, if all names are numbers, a sample of class 7 gets label 7, and labels that nobody has are
// called by their number; numbers that are too large for that, and all other names, are sorted.
// `corrupt`: a sample is of a class that the source does not list.
Result<ClassOrder> order_classes(const std::vector<std::string>& seen,
                                 const std::vector<std::string>& given);

// The words of every class, by label; empty if no class has any.
std::vector<std::string> order_titles(
    const std::vector<std::string>& names,
    const std::vector<std::pair<std::string, std::string>>& titles);

}  // namespace tern
