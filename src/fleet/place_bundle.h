// Tern itself, brought to a machine: once per content, verified, and never seen half.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "fleet/machine_shell.h"

namespace tern {

struct BundleFile {
  std::string name;  // in the bundle: "bin/tern"
  std::filesystem::path path;
};

// What a bundle of this installation holds: where `make dist` made it, all of it; else (a build
// folder, `make install`) the programs, our kernels and the recipes of `recipe_folder`, which need
// the libraries that this machine has.
Result<std::vector<BundleFile>> bundle_files(const std::filesystem::path& executable,
                                             const std::filesystem::path& recipe_folder);

struct Bundle {
  std::string hash;               // of its list of files and their hashes
  std::filesystem::path archive;  // a .tar.gz
  int64_t size_bytes = 0;
};

// Packs the files below `cache`/bundles, unless that archive is there from before.
Result<Bundle> pack_bundle(const std::vector<BundleFile>& files, const std::filesystem::path& cache,
                           Clock& clock, std::stop_token stop);

struct PlacedBundle {
  std::string folder;  // on the machine, an absolute path
  bool sent = false;   // false: it was there
  std::string tern() const { return folder + "/bin/tern"; }
};

// Brings the bundle to ~/.cache/tern/bundles/HASH on the machine, or finds it there; every file of
// it is read there and compared with its hash, each time. It gets its name by one rename, so two
// launches at once are fine; one that was interrupted leaves a part that a later one removes.
Result<PlacedBundle> place_bundle(const MachineShell& shell, const Bundle& bundle,
                                  std::stop_token stop);

// Whether the `tern` there starts, and is `version`.
Status check_tern(const MachineShell& shell, const std::string& tern, const std::string& version,
                  std::stop_token stop);
// Whether the machine can train: `tern doctor --json --quick` there. The error is what stops it,
// with what to do: where LibTorch is missing, how to get it.
Status pass_doctor(const MachineShell& shell, const std::string& tern, std::stop_token stop);
// What doctor's answer means.
Status judge_doctor(const FleetMachine& machine, const ChildAnswer& answer);

}  // namespace tern
