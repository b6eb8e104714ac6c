// `tern doctor`: looks at this machine, measures it for some seconds and says what is wrong with
// it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/become_trainer.h"
#include "cli/command.h"
#include "cli/doctor_cpu.h"
#include "cli/doctor_disk.h"
#include "cli/doctor_findings.h"
#include "cli/doctor_store.h"
#include "cli/doctor_trainer.h"
#include "cli/find_trainer.h"
#include "core/system_files.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern doctor: what this machine can do, and what is far below what it should be.

  tern doctor           for people; takes about ten seconds
  tern doctor --json    for programs: the same figures and advice, at the end
  tern doctor --quick   only what keeps this machine from training, in a second
                        or two: what `tern launch` asks of each machine
  tern doctor URI       a bucket instead: which credentials were found, where,
                        and whether they can list, write, read, create only and
                        remove there; what it writes is gone afterwards. URI is
                        s3://bucket/prefix, gs://bucket/prefix, a folder or
                        az://account/container/prefix

It reads what the system says of itself (CPU, memory, limits of a container,
GPU, LibTorch) and measures: multiply-adds on all cores, a matrix product by
LibTorch on the CPU and on the GPU, memory, and the disk below the current
folder, with a file of at most 256 MB that is gone afterwards. Measure on an
idle machine: what others do at the time counts.

Exit codes: 0 this machine can train, 3 LibTorch or tern-train is missing, 2
TERN_LIBTORCH is wrong, 6 LibTorch does not load or nothing can be written here.
Of a bucket: 0 runs can be kept there, else that of the first thing that fails.
)";

// Together with LibTorch's start these stay near ten seconds.
constexpr std::chrono::milliseconds kPeakTime{600};
constexpr std::chrono::milliseconds kMemoryTime{500};

double read_load() {
  const std::string text = read_system_file("/proc/loadavg");  // "0.01 0.24 0.91 1/94 16118"
  double load = 0;
  return std::sscanf(text.c_str(), "%lf", &load) == 1 ? load : 0;
}

Result<std::vector<Gpu>> read_gpus(Findings& findings) {
  ASSIGN_OR_RETURN(const std::unique_ptr<GpuDriver> driver, GpuDriver::open());
  findings.driver = driver->driver_version();
  findings.cuda = driver->cuda_version();
  return driver->gpus();
}

// A launch waits for a machine that is busy rather than do without the answer.
constexpr std::chrono::seconds kQuickLimit{60};
constexpr DiskTest kQuickDisk{
    .bytes_max = 1 << 20, .fsyncs_max = 1, .limit = std::chrono::milliseconds(200)};

// Looks and measures one thing after the other; each is said as soon as it is known.
class Examination {
 public:
  using Say = std::function<void(const std::string&)>;
  Examination(const Surroundings& surroundings, Clock& clock, Say say)
      : around_(surroundings), clock_(clock), say_(std::move(say)) {}

  // Whether LibTorch computes and whether something can be written.
  Findings run_quickly() {
    findings_.machine = read_machine();
    find_libtorch_here();
    say_(describe_libtorch(findings_));
    if (findings_.libtorch->has_value()) {
      findings_.cpu_speed = measure_product("cpu", kQuickLimit);
      say_(describe_cpu_speed(findings_));
    }
    std::error_code error;
    findings_.disk = measure_disk(std::filesystem::current_path(error), clock_, kQuickDisk);
    return std::move(findings_);
  }

  Findings run() {
    findings_.load = read_load();
    findings_.machine = read_machine();
    say_(describe_machine(findings_));
    find_libtorch_here();
    say_(describe_libtorch(findings_));
    findings_.gpus = read_gpus(findings_);
    say_(describe_gpus(findings_));
    const int64_t cores = findings_.machine.cores;
    findings_.peak = measure_cpu_peak(clock_, cores, kPeakTime);
    say_(describe_peak(findings_));
    if (findings_.libtorch->has_value()) {
      findings_.cpu_speed = measure_product("cpu");
      say_(describe_cpu_speed(findings_));
      if (findings_.gpus->has_value() && !findings_.gpus->value().empty()) {
        findings_.gpu_speed = measure_product("cuda:0");
        say_(describe_gpu_speed(findings_));
      }
    }
    const int64_t bytes = memory_test_bytes(last_cache_bytes(), memory_bytes());
    findings_.memory_gb_s = measure_memory_gb_s(clock_, cores, bytes, kMemoryTime);
    say_(describe_memory_speed(findings_));
    std::error_code error;
    findings_.disk = measure_disk(std::filesystem::current_path(error), clock_);
    say_(describe_disk(findings_));
    return std::move(findings_);
  }

 private:
  void find_libtorch_here() {
    const Result<std::filesystem::path> found = find_libtorch_of(around_, clock_);
    if (found.has_value()) {
      findings_.libtorch = found->string();
    } else {
      findings_.libtorch = found.error();
    }
  }

  Result<TrainerSpeed> measure_product(const std::string& device,
                                       Nanoseconds limit = TrainerQuestion{}.limit) {
    ASSIGN_OR_RETURN(const std::filesystem::path trainer, find_trainer(around_.executable));
    const int64_t cores = findings_.machine.cores;
    return ask_trainer(
        {.trainer = trainer,
         .device = device,
         .environment = trainer_environment(**findings_.libtorch, around_.library_path, cores,
                                            cores, Arithmetic::native, around_.own_libraries()),
         .limit = limit},
        clock_);
  }

  int64_t memory_bytes() const {
    const Machine& machine = findings_.machine;
    return machine.memory_limit_bytes > 0 ? machine.memory_limit_bytes : machine.memory_bytes;
  }

  const Surroundings& around_;
  Clock& clock_;
  const Say say_;
  Findings findings_;
};

// A person waits for it: no longer than this for any one request.
constexpr Milliseconds kStoreDeadline{20'000};

Result<int> examine_store(const Surroundings& surroundings, const std::string& uri, bool json,
                          const Examination::Say& say) {
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(uri));
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, {.deadline = kStoreDeadline});
  StoreFindings findings{.address = address.to_string()};
  if (!address.is_folder()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Bucket> bucket, door.open_bucket(address));
    ASSIGN_OR_RETURN(findings.credentials, bucket->credentials());
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, door.open(address));
  say(describe_store(findings));
  findings.trials =
      try_store(*store, clock, [&](const StoreTrial& trial) { say(describe_trial(trial)); });
  say(describe_store_verdict(findings));
  if (json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", store_findings_json(findings).dump(2, ' ', false, replace));
  }
  for (const StoreTrial& trial : findings.trials) {
    if (trial.error) return exit_code_of(trial.error->code);
  }
  return kExitDone;
}

}  // namespace

Result<int> doctor_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool json = false;
  bool quick = false;
  std::string uri;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--json", json);
  app.add_flag("--quick", quick);
  app.add_option("URI", uri);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern doctor --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  const auto say = [json](const std::string& text) {
    if (json) return;
    fmt::print("{}", text);
    std::fflush(stdout);  // the next line can take seconds
  };
  if (app.count("URI") > 0) return examine_store(surroundings, uri, json, say);
  SystemClock clock;
  Examination examination(surroundings, clock, say);
  const Findings findings = quick ? examination.run_quickly() : examination.run();
  if (json) {
    // A byte that is no UTF-8 (in a path, say) must not cost the whole answer.
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", doctor_json(findings).dump(2, ' ', false, replace));
  } else {
    say(describe_advice(judge(findings)));
  }
  return doctor_exit_code(findings);
}

}  // namespace tern
