// The names of a run's classes, kept beside its weights for whoever reads predictions or reports.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

inline constexpr char kClassNamesObject[] = "classes.txt";  // a name a line, by label

// Empty where the run has none: its data had no names, or it is of before they were kept.
Result<std::vector<std::string>> read_class_names(ObjectStore& run);

}  // namespace tern
