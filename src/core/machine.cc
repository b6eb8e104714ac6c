#include "core/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string_view>

#include "core/system_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// Instruction sets that decide how fast arithmetic is, and which bits it gives; x86, then ARM.
constexpr std::array<std::string_view, 22> kFeatures = {
    "sse2",        "sse4_2",      "avx",      "f16c",     "fma",         "avx2",
    "avx512f",     "avx512bw",    "avx512dq", "avx512vl", "avx512_vnni", "avx_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",    "asimd",
    "asimdhp",     "bf16",        "sve",      "sve2",
};

// The value of the first line that begins with `key`, after `separator`; empty if there is none.
std::string value_of(const std::string& text, std::string_view key, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos || !line.starts_with(key)) continue;
    // Only blanks between: "model name" is not "model".
    if (line.find_first_not_of(" \t", key.size()) == at) return printable_line(line.substr(at + 1));
  }
  return "";
}

std::string unquote(std::string text) {
  if (text.size() < 2 || text.back() != text.front()) return text;
  if (text.front() != '"' && text.front() != '\'') return text;
  return text.substr(1, text.size() - 2);
}

void read_cpu(const fs::path& root, Machine& machine) {
  // Every core has a paragraph; the first one stands for all.
  std::string text = read_system_file(root / "proc/cpuinfo");
  text.resize(std::min(text.size(), text.find("\n\n")));
  machine.cpu = value_of(text, "model name", ':');
  std::string flags = value_of(text, "flags", ':');
  if (flags.empty()) flags = value_of(text, "Features", ':');
  std::istringstream words(flags);
  std::set<std::string, std::less<>> here;
  for (std::string word; words >> word;) here.insert(word);
  for (const std::string_view feature : kFeatures) {
    if (here.contains(feature)) machine.cpu_features.emplace_back(feature);
  }
}

// "MemTotal:       24682416 kB"
int64_t read_memory_bytes(const fs::path& root) {
  const std::string total = value_of(read_system_file(root / "proc/meminfo"), "MemTotal", ':');
  const auto kib = parse_whole_number(total.substr(0, total.find(' ')));
  constexpr int64_t kKibMax = int64_t{1} << 50;
  return kib && *kib > 0 && *kib < kKibMax ? *kib * 1024 : 0;
}

std::string read_system_name(const fs::path& root) {
  for (const char* place : {"etc/os-release", "usr/lib/os-release"}) {
    const std::string name = value_of(read_system_file(root / place), "PRETTY_NAME", '=');
    if (!name.empty()) return unquote(name);
  }
  return "";
}

void read_container(const fs::path& root, Machine& machine) {
  struct Mark {
    const char* file;
    const char* container;
  };
  // Kubernetes first: below it is one of the others, which tells less.
  constexpr std::array<Mark, 4> kMarks = {{{"var/run/secrets/kubernetes.io", "kubernetes"},
                                           {"run/.containerenv", "podman"},
                                           {".dockerenv", "docker"},
                                           {".singularity.d", "apptainer"}}};
  std::error_code error;
  for (const Mark& mark : kMarks) {
    if (!fs::exists(root / mark.file, error)) continue;
    machine.container = mark.container;
    break;
  }
  machine.container_image =
      unquote(value_of(read_system_file(root / "run/.containerenv"), "image", '='));
}

// Clouds sign the firmware's tables. Only Amazon's also name the kind of machine there; the others
// tell it by a metadata service, which is not asked.
void read_cloud(const fs::path& root, Machine& machine) {
  const auto dmi = [&](const char* name) {
    return printable_line(read_system_file(root / "sys/class/dmi/id" / name));
  };
  constexpr std::string_view kAmazon = "Amazon EC2";
  constexpr std::string_view kAzureTag = "7783-7084-3265-9085-8269-3286-77";
  const std::string vendor = dmi("sys_vendor");
  const std::string product = dmi("product_name");
  if (vendor == kAmazon || dmi("board_vendor") == kAmazon) {
    machine.cloud = "aws";
    // "g5.xlarge", "m7i.metal-24xl"; machines older than Nitro say "HVM domU".
    const bool is_type =
        product.find('.') != std::string::npos && product.find(' ') == std::string::npos;
    if (is_type) machine.instance_type = product;
  } else if (vendor == "Google" || product == "Google Compute Engine") {
    machine.cloud = "gcp";
  } else if (vendor == "Microsoft Corporation" && dmi("chassis_asset_tag") == kAzureTag) {
    machine.cloud = "azure";
  }
}

}  // namespace

Machine read_machine(const fs::path& root) {
  Machine machine;
  read_cpu(root, machine);
  machine.cores = usable_cores();
  const CgroupLimits limits = read_cgroup_limits(root);
  machine.cpu_limit = limits.cores;
  machine.memory_limit_bytes = limits.memory_bytes;
  machine.memory_bytes = read_memory_bytes(root);
  machine.kernel = printable_line(read_system_file(root / "proc/sys/kernel/osrelease"));
  machine.system = read_system_name(root);
  read_container(root, machine);
  read_cloud(root, machine);
  return machine;
}

bool cpu_has_bfloat16(const Machine& machine) {
  return std::ranges::any_of(machine.cpu_features, [](const std::string& feature) {
    return feature == "amx_bf16" || feature == "avx512_bf16" || feature == "bf16";
  });
}

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more than 1024 cores, whose mask does not fit.
  const bool fits = sched_getaffinity(0, sizeof set, &set) == 0;
  const int64_t cores = fits ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  return std::max<int64_t>(1, cores);
}

}  // namespace tern
