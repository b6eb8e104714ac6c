// How fast the disk below a folder is, measured with a file that has no name.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cli/doctor_findings.h"
#include "core/clock.h"

namespace tern {

struct DiskTest {
  int64_t bytes_max = int64_t{256} << 20;
  int fsyncs_max = 20;
  // For each of writing, reading and small syncs; one chunk may take longer on a slow disk.
  Nanoseconds limit = std::chrono::milliseconds(1500);
};

// Writes at most `bytes_max` and at most a tenth of what is free. The file is gone with this call,
// and with the process, however that ends: it has no name by the time it has bytes. Fails as the
// file system does: `permission_denied`, `exhausted`, `unavailable`.
Result<DiskSpeed> measure_disk(const std::filesystem::path& folder, Clock& clock,
                               const DiskTest& test = {});

}  // namespace tern
