#include "cli/doctor_cpu.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/doctor_kernels.h"

namespace tern {
namespace {

constexpr int kRounds = 20000;  // 40 to 100 us: long beside reading the clock
constexpr int64_t kThreadsMax = 1024;

// What one thread did.
struct Share {
  double units = 0;
  double wall_s = 0;
  double cpu_s = 0;
};

double thread_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One thread's part, for as long as it is wanted; returns the units done. Empty: no memory for it.
using Work = std::function<double()>;

void measure(Clock& clock, Nanoseconds duration, const Work& work, Share& share) {
  const Nanoseconds begin = clock.now();
  const double cpu_begin_s = thread_cpu_s();
  Nanoseconds now = begin;
  do {
    share.units += work();
    now = clock.now();
  } while (now - begin < duration);
  share.wall_s = to_seconds(now - begin);
  share.cpu_s = thread_cpu_s() - cpu_begin_s;
}

// Has every thread make its work and then do it for `duration`, from the same moment on. Threads
// that the machine refuses are left out.
std::vector<Share> run_on_threads(Clock& clock, int64_t threads, Nanoseconds duration,
                                  const std::function<Work()>& prepare) {
  std::vector<Share> shares(static_cast<size_t>(threads));
  std::latch all_ready(threads);
  std::vector<std::jthread> running;
  for (Share& share : shares) {
    try {
      running.emplace_back([&clock, &all_ready, &prepare, &share, duration] {
        const Work work = prepare();
        if (work) work();  // first touches and slow clocks are not measured
        all_ready.arrive_and_wait();
        if (work) measure(clock, duration, work, share);
      });
    } catch (const std::system_error&) {
      all_ready.count_down();
    }
  }
  running.clear();  // joins
  return shares;
}

double total_rate(const std::vector<Share>& shares) {
  double rate = 0;
  for (const Share& share : shares) {
    if (share.wall_s > 0) rate += share.units / share.wall_s;
  }
  return rate;
}

double mean_cpu_share(const std::vector<Share>& shares) {
  double cpu_s = 0;
  double wall_s = 0;
  for (const Share& share : shares) {
    cpu_s += share.cpu_s;
    wall_s += share.wall_s;
  }
  return wall_s > 0 ? std::min(1.0, cpu_s / wall_s) : 1;
}

// One thread's three arrays.
class Triad {
 public:
  explicit Triad(size_t elements) : a_(elements, 0.0), b_(elements, 1.0), c_(elements, 2.0) {}

  // The bytes moved, in GB. Reading `a` before it is overwritten, which most CPUs do, is not
  // counted.
  double operator()() {
    scale_ = -scale_;
    double* a = a_.data();
    const double* b = b_.data();
    const double* c = c_.data();
    for (size_t i = 0; i < a_.size(); ++i) a[i] = b[i] + scale_ * c[i];
    return 3.0 * sizeof(double) * static_cast<double>(a_.size()) / 1e9;
  }

 private:
  double scale_ = 3;
  std::vector<double> a_;
  std::vector<double> b_;
  std::vector<double> c_;
};

}  // namespace

CpuPeak measure_cpu_peak(Clock& clock, int64_t threads, Nanoseconds duration) {
  threads = std::clamp<int64_t>(threads, 1, kThreadsMax);
  const PeakKernel kernel = choose_peak_kernel();
  const auto prepare = [&kernel]() -> Work {
    return [&kernel] {
      // A sum that is no number would mean a broken loop; that it is looked at keeps the loop.
      const float result = kernel.run(kRounds);
      return result == result ? kernel.flops_per_round * kRounds / 1e9 : 0;
    };
  };
  // Clocks rise and fall, and a moment's neighbour is no property of the machine.
  constexpr int kTries = 3;
  CpuPeak best{.instructions = std::string(kernel.instructions)};
  for (int i = 0; i < kTries; ++i) {
    const std::vector<Share> shares = run_on_threads(clock, threads, duration / kTries, prepare);
    const double gflops = total_rate(shares);
    if (gflops <= best.gflops) continue;
    best.gflops = gflops;
    best.cpu_share = mean_cpu_share(shares);
  }
  return best;
}

double measure_memory_gb_s(Clock& clock, int64_t threads, int64_t bytes, Nanoseconds duration) {
  threads = std::clamp<int64_t>(threads, 1, kThreadsMax);
  const auto elements =
      static_cast<size_t>(bytes / threads / static_cast<int64_t>(3 * sizeof(double)));
  if (elements == 0) return 0;
  return total_rate(run_on_threads(clock, threads, duration, [elements]() -> Work {
    try {
      auto triad = std::make_shared<Triad>(elements);
      return [triad] { return (*triad)(); };
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }));
}

int64_t memory_test_bytes(int64_t cache_bytes, int64_t memory_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const int64_t wanted = std::clamp(4 * cache_bytes, 64 * kMiB, 1024 * kMiB);
  return memory_bytes > 0 ? std::min(wanted, memory_bytes / 8) : wanted;
}

int64_t last_cache_bytes() {
#if defined(_SC_LEVEL4_CACHE_SIZE)
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const int64_t bytes = sysconf(level); bytes > 0) return bytes;
  }
#endif
  return 0;
}

}  // namespace tern
