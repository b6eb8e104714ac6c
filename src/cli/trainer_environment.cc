#include "cli/trainer_environment.h"

#include "train/run_config.h"

namespace tern {

Result<int64_t> recorded_threads(ObjectStore& run) {
  const Result<Bytes> text = run.get(kRunFileObject);
  // On this machine tern-train meets the same obstacle, and says more.
  const bool is_here = run.local_path(kRunFileObject).has_value();
  if (!text && (is_here || text.error().code == Code::not_found)) return int64_t{0};
  if (!text) return text.error().at("read the run's options");
  RunConfig recorded;
  recorded.train.threads = 0;
  describe_run(recorded).load_toml(*text, kRunFileObject);
  return recorded.train.threads;
}

int64_t decide_threads(int64_t recorded, int64_t configured, int64_t cores) {
  if (recorded > 0) return recorded;
  return configured > 0 ? configured : cores;
}

std::vector<EnvironmentChange> trainer_environment(const std::filesystem::path& libtorch,
                                                   const std::string& library_path, int64_t threads,
                                                   int64_t cores, Arithmetic arithmetic,
                                                   const std::filesystem::path& own_libraries) {
  const std::string count = std::to_string(threads);
  std::string path = (libtorch / "lib").string();
  if (!own_libraries.empty()) path += ":" + own_libraries.string();
  // An empty part would mean the current folder.
  if (!library_path.empty()) path += ":" + library_path;

  std::vector<EnvironmentChange> changes = {
      {"LD_LIBRARY_PATH", path},
      {"OMP_NUM_THREADS", count},
      {"MKL_NUM_THREADS", count},
      {kThreadsVariable, count},
      {kLibraryPathVariable, library_path},
      // cuBLAS gives the same bits every time only with a workspace of its own; a GPU's number
      // should be the one that the driver's tools show.
      {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
      {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
  };
  // Each of the three libraries chooses its kernels by itself.
  if (arithmetic == Arithmetic::portable) {
    changes.push_back({"ATEN_CPU_CAPABILITY", "avx2"});
    changes.push_back({"ONEDNN_MAX_CPU_ISA", "AVX2"});
    changes.push_back({"MKL_CBWR", "COMPATIBLE"});
  }
  // Threads that wait by spinning are fast while each has a core, and stand in each other's way
  // when they outnumber the cores: an epoch then takes many times as long.
  const bool crowded = threads > cores;
  const auto set_or_unset = [&](const char* name, const char* value) {
    changes.push_back({name, crowded ? std::optional<std::string>(value) : std::nullopt});
  };
  set_or_unset("OMP_WAIT_POLICY", "passive");
  set_or_unset("KMP_BLOCKTIME", "0");
  set_or_unset("GOMP_SPINCOUNT", "0");
  return changes;
}

}  // namespace tern
