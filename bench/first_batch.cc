// How soon is the first batch there, and what does an index of a million samples cost in memory?
//   - resuming at 90 % of an epoch, against a fresh start
//   - a data set of 1.28 million samples (made on the spot): from exec of `tern data bench` to its
//   end
//     with one batch, and the memory that 16 processes take for the data set, against one
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "core/clock.h"
#include "core/crc32c.h"
#include "dataset/index.h"
#include "dataset/indexed_dataset.h"
#include "loader/loader.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSamples = 1'280'000;
constexpr int64_t kClasses = 1000;
constexpr ImageShape kShape{3, 4, 4};
constexpr int64_t kBatch = 256;
constexpr int kConsumers = 16;
constexpr int kLeaveFd = 3;  // where a consumer is told to leave

// Raw samples of 48 bytes in one file, named as ImageNet's are.
void make_data_set(const fs::path& folder) {
  fs::create_directories(folder);
  IndexContent content;
  Bytes pixels(static_cast<size_t>(kSamples * kShape.bytes()), '\0');
  uint32_t state = 1;
  for (char& byte : pixels)
    byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  std::ofstream(folder / "samples.bin", std::ios::binary)
      .write(pixels.data(), static_cast<std::streamsize>(pixels.size()));
  content.files = {{"samples.bin", static_cast<int64_t>(pixels.size())}};
  for (int64_t i = 0; i < kClasses; ++i) content.about.classes.push_back(fmt::format("n{:08}", i));
  content.about.representation = "raw";
  content.train_samples = kSamples - 1;  // one for the test split
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto offset = static_cast<size_t>(i * kShape.bytes());
    const auto bytes = static_cast<size_t>(kShape.bytes());
    content.names.push_back(fmt::format("n{:08}/n{:08}_{}.JPEG", i % kClasses, i % kClasses, i));
    content.entries.push_back({.offset = offset,
                               .length = static_cast<uint32_t>(bytes),
                               .crc32c = crc32c(BytesView(pixels).substr(offset, bytes)),
                               .label = static_cast<uint32_t>(i % kClasses),
                               .width = static_cast<uint16_t>(kShape.width),
                               .height = static_cast<uint16_t>(kShape.height),
                               .channels = 3});
  }
  const Bytes index = encode_index(content);
  std::ofstream(folder / kIndexFile, std::ios::binary)
      .write(index.data(), static_cast<std::streamsize>(index.size()));
}

// Seconds from making the loader to its first batch; the best of some, as machines are noisy.
double first_batch_seconds(const Dataset& dataset, const Plan& plan, int64_t at, Clock& clock) {
  double best = 1e30;
  for (int i = 0; i < 20; ++i) {
    const Nanoseconds start = clock.now();
    Loader loader({.dataset = &dataset,
                   .plan = &plan,
                   .seed = 1,
                   .augment = {.pad_crop = 1, .flip = true},
                   .options = {.threads = 2, .batches_ahead = 1},
                   .start = {3, at},
                   .epochs = 4});
    if (!loader.next()) return -1;
    best = std::min(best, to_seconds(clock.now() - start));
  }
  return best;
}

// Kilobytes of this process, each shared page counted by its share.
int64_t proportional_kb() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Pss:")) return std::stoll(line.substr(4));
  }
  return 0;
}

// One of the processes below, started as a program of its own so that it shares nothing but what
// the system shares: opens the data set, loads a batch, and when told says what memory that took.
int consume(const fs::path& folder) {
  const int64_t before = proportional_kb();
  const auto dataset = open_indexed(folder, Split::train);
  if (!dataset.has_value()) return 1;
  const Plan plan((*dataset)->id(), (*dataset)->size(), 1, kBatch, Order::shuffled);
  if (!load_batch({.dataset = dataset->get(), .plan = &plan}, {0, 0}).has_value()) return 1;
  char token = 'r';
  if (write(STDOUT_FILENO, &token, 1) != 1 || read(STDIN_FILENO, &token, 1) != 1) return 1;
  const int64_t more = proportional_kb() - before;
  if (write(STDOUT_FILENO, &more, sizeof(more)) != sizeof(more)) return 1;
  // A process that has ended shares no pages any more: all stay until the last is measured.
  return read(kLeaveFd, &token, 1) == 1 ? 0 : 1;
}

// What `consumers` processes take for the data set, added up: each counts a shared page by its
// share.
int64_t data_set_kb(const fs::path& folder, int consumers) {
  int leave[2], orders[2], answers[2];
  if (pipe(leave) != 0 || pipe(orders) != 0 || pipe(answers) != 0) return -1;
  std::vector<pid_t> children;
  for (int i = 0; i < consumers; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      dup2(orders[0], STDIN_FILENO);
      dup2(answers[1], STDOUT_FILENO);
      dup2(leave[0], kLeaveFd);
      execl("/proc/self/exe", "first_batch", "--consume", folder.c_str(), nullptr);
      _exit(127);
    }
    children.push_back(child);
  }
  close(answers[1]);  // so that a child that fails ends the reading below
  char token = 0;
  bool is_whole = true;
  for (int i = 0; i < consumers && is_whole; ++i) is_whole = read(answers[0], &token, 1) == 1;
  int64_t total = 0;
  for (int i = 0; i < consumers && is_whole; ++i) {
    int64_t more = 0;
    is_whole =
        write(orders[1], "g", 1) == 1 && read(answers[0], &more, sizeof(more)) == sizeof(more);
    total += more;
  }
  for (int i = 0; i < consumers && is_whole; ++i) is_whole = write(leave[1], "d", 1) == 1;
  for (const int fd : {orders[1], leave[1]}) close(fd);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  for (const int fd : {orders[0], leave[0], answers[0]}) close(fd);
  return is_whole ? total : -1;
}

double process_seconds(const fs::path& program, const fs::path& folder, Clock& clock) {
  double best = 1e30;
  for (int i = 0; i < 10; ++i) {
    const Nanoseconds start = clock.now();
    const pid_t child = fork();
    if (child == 0) {
      const int null = memfd_create("output", 0);
      dup2(null, STDOUT_FILENO);
      execl(program.c_str(), program.c_str(), "data", "bench", folder.c_str(), "--samples", "1",
            "--passes", "1", "--batch", "256", "--json", nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return -1;
    best = std::min(best, to_seconds(clock.now() - start));
  }
  return best;
}

int bench(const fs::path& program) {
  SystemClock clock;
  const fs::path folder = fs::temp_directory_path() / fmt::format("tern_first_batch_{}", getpid());
  make_data_set(folder);
  // Before this process maps the index too.
  const int64_t one = data_set_kb(folder, 1);
  const int64_t many = data_set_kb(folder, kConsumers);
  const auto dataset = open_indexed(folder, Split::train);
  if (!dataset.has_value()) {
    fmt::print(stderr, "{}\n", dataset.error().to_string());
    return 2;
  }
  const Plan plan((*dataset)->id(), (*dataset)->size(), 1, kBatch, Order::shuffled);
  const double fresh = first_batch_seconds(**dataset, plan, 0, clock);
  const double resumed =
      first_batch_seconds(**dataset, plan, plan.batches_per_epoch() * 9 / 10, clock);
  const double from_exec = process_seconds(program, folder, clock);
  fs::remove_all(folder);
  const double memory_ratio = static_cast<double>(many) / static_cast<double>(one);
  fmt::print("{} samples\n\n", kSamples);
  fmt::print("first batch, fresh loader            {:8.2f} ms\n", fresh * 1e3);
  fmt::print("first batch, at 90 % of an epoch     {:8.2f} ms, {:.2f} times (at most 1.1)\n",
             resumed * 1e3, resumed / fresh);
  fmt::print("tern from exec to the first batch    {:8.0f} ms (at most 150, aim 100)\n",
             from_exec * 1e3);
  fmt::print("memory for the data set, 1 process   {:8.1f} MB\n", static_cast<double>(one) / 1e3);
  fmt::print("the same, {} processes together      {:8.1f} MB, {:.2f} times (at most 1.05)\n\n",
             kConsumers, static_cast<double>(many) / 1e3, memory_ratio);
  const bool is_kept = fresh > 0 && resumed <= 1.1 * fresh && from_exec > 0 && from_exec <= 0.150 &&
                       one > 0 && many > 0 && memory_ratio <= 1.05;
  fmt::print("{}\n", is_kept ? "kept" : "MISSED");
  return is_kept ? 0 : 1;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--consume") return tern::consume(argv[2]);
  if (argc != 2 || std::string_view(argv[1]) == "--help") {
    fmt::print("usage: first_batch TERN      (the program, as build/release/tern)\n");
    return argc == 2 ? 0 : 2;
  }
  return tern::bench(argv[1]);
}
