// The environment that LibTorch's libraries read when they load. It must be right before tern-train
// starts: OpenMP and MKL look at it once, and the number of threads is part of the arithmetic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/machine.h"  // usable_cores()
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;  // nothing: unset it

  bool operator==(const EnvironmentChange&) const = default;
};

// Tells tern-train how many threads were decided on.
inline constexpr char kThreadsVariable[] = "TERN_THREADS";
// When `tern` began, by time_since_boot(): what came before the first step is time of the run too.
inline constexpr char kStartedVariable[] = "TERN_STARTED_NS";
// The user's own LD_LIBRARY_PATH, for commands that the trainer starts.
inline constexpr char kLibraryPathVariable[] = "TERN_LIBRARY_PATH";

// The thread count recorded with the run; 0 if there is none. Damage is none of our business:
// tern-train looks at the whole run and says so. A store that cannot be asked is an error: a wrong
// count would change the arithmetic.
Result<int64_t> recorded_threads(ObjectStore& run);

// A run keeps the count it began with (`recorded`), whatever the machine has: sums in another order
// are other sums. A new run takes what was configured or else one per core. 0: not given.
int64_t decide_threads(int64_t recorded, int64_t configured, int64_t cores);

// Which instructions LibTorch computes with: all that this CPU has, or those of train.portable.
enum class Arithmetic { native, portable };

// `library_path` is the present $LD_LIBRARY_PATH. `own_libraries` is the folder of a bundle's: the
// trainer finds those itself, but not what they need in turn. Empty: there is none.
std::vector<EnvironmentChange> trainer_environment(const std::filesystem::path& libtorch,
                                                   const std::string& library_path, int64_t threads,
                                                   int64_t cores,
                                                   Arithmetic arithmetic = Arithmetic::native,
                                                   const std::filesystem::path& own_libraries = {});

}  // namespace tern
