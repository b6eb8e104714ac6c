#include "forked_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/log.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "tiny_data.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

// A store that lets nobody at its files, as a bucket does not: PrefixStore without its prefix.
class BucketShaped final : public ObjectStore {
 public:
  explicit BucketShaped(ObjectStore& inner) : inner_(inner) {}

  Result<Bytes> get(const std::string& name) override { return inner_.get(name); }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return inner_.get_range(name, offset, length);
  }
  Status put(const std::string& name, BytesView bytes) override { return inner_.put(name, bytes); }
  Status create(const std::string& name, BytesView bytes) override {
    return inner_.create(name, bytes);
  }
  Result<ObjectInfo> stat(const std::string& name) override { return inner_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return inner_.list(prefix);
  }
  Status remove(const std::string& name) override { return inner_.remove(name); }
  std::optional<std::filesystem::path> local_path(const std::string&) const override { return {}; }

 private:
  ObjectStore& inner_;
};

std::shared_ptr<ObjectStore> open_folder(const std::filesystem::path& run) {
  static RealFileDoor door;  // has no state
  auto disk = DiskStore::open(run, door);
  if (!disk) return nullptr;
  return std::move(*disk);
}

[[noreturn]] void be_a_process(const std::filesystem::path& run, const RunConfig& config,
                               const ForkedProcess& process) {
  SimClock clock;
  std::FILE* quiet = std::fopen((run.string() + ".log").c_str(), "a");
  Log log(clock, Level::info, quiet);
  NoticeBoard board;
  const std::shared_ptr<ObjectStore> kept = process.open ? process.open() : open_folder(run);
  auto me = this_process();
  auto data = open_run_data(config);
  if (kept == nullptr || !me.has_value() || !data.has_value()) _exit(kExitInternal);
  BucketShaped bucket(*kept);
  ObjectStore& shaped =
      process.shape == StoreShape::bucket ? static_cast<ObjectStore&>(bucket) : *kept;
  FaultyStore store(shaped);
  TrainerSetup setup{.config = config,
                     .run_name = run.string(),
                     .command = "test",
                     .me = *me,
                     .run = &store,
                     .clock = &clock,
                     .log = &log,
                     .board = &board};
  ForkedWorld world{.clock = clock, .board = board, .kept = *kept, .store = store, .setup = setup};
  setup.on_step = [&](const StepEvent& event) {
    clock.advance(std::chrono::seconds(1));
    if (world.on_step) world.on_step(event);
  };
  if (process.arrange) process.arrange(world);
  const Result<Outcome> outcome = train(setup, std::move(*data));
  if (!outcome.has_value()) log.error("test", outcome.error().to_string());
  write_text(run.string() + ".requests", fmt::format("{}", fmt::join(store.history(), "\n")));
  std::fflush(nullptr);
  _exit(outcome.has_value() ? outcome->exit_code : exit_code_of(outcome.error().code));
}

}  // namespace

RunConfig tiny_config(const std::filesystem::path& data) {
  RunConfig config;
  config.recipe = "tiny";
  config.data = {.format = "idx", .path = data.string(), .classes = 4};
  config.augment = {.pad_crop = 1, .flip = true};
  config.loader = {.threads = 1, .batches_ahead = 2};
  config.model = {.name = "small-cnn", .width = 4, .dropout = 0.2};
  config.optimizer = {
      .learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3};
  config.schedule = {.shape = "cosine", .warmup_epochs = 0.5};
  config.train = {.seed = 3, .batch = 16, .epochs = 7, .evaluate_batch = 20, .threads = 1};
  config.checkpoint = {.every = std::chrono::seconds(5), .keep = 2};
  return config;
}

int run_process(const std::filesystem::path& run, const RunConfig& config,
                const ForkedProcess& process) {
  std::fflush(nullptr);  // or the fork would write it again
  const pid_t child = fork();
  if (child == 0) be_a_process(run, config, process);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<std::string> requests_of(const std::filesystem::path& run) {
  std::vector<std::string> requests;
  std::istringstream lines(read_text(run.string() + ".requests"));
  for (std::string line; std::getline(lines, line);) requests.push_back(line);
  return requests;
}

Remains read_remains(const std::filesystem::path& run) {
  const std::shared_ptr<ObjectStore> folder = open_folder(run);
  EXPECT_NE(folder, nullptr) << run;
  return folder == nullptr ? Remains() : read_remains(*folder);
}

Remains read_remains(ObjectStore& run) {
  Remains remains;
  remains.weights = run.get("model.safetensors").value_or("");
  int64_t skipped = 0;
  const auto lines = read_json_records(run, kMetricsObject, skipped);
  EXPECT_TRUE(lines.has_value());
  std::map<int64_t, std::string> epochs;
  for (nlohmann::json json : lines.value_or({})) {
    if (json.contains("process_begins")) continue;
    json.erase("ms");
    json.erase("us");     // where the time went
    json.erase("lease");  // tells the processes apart
    auto& place = json.contains("epoch_done") ? epochs[json["epoch_done"].get<int64_t>()]
                                              : remains.losses[json["step"].get<int64_t>()];
    if (!place.empty() && place != json.dump())
      remains.complaint += place + " and then " + json.dump();
    place = json.dump();
  }
  for (const auto& [epoch, text] : epochs) remains.epochs += text + "\n";
  PrefixStore checkpoints(run, "checkpoints");
  const auto newest = newest_checkpoint(checkpoints);
  if (newest.has_value() && newest->found) {
    for (const Blob& blob : newest->found->record.blobs) remains.blobs.push_back(blob.sha256);
  }
  return remains;
}

int64_t interrupt_every(int64_t otherwise) {
  const char* text = std::getenv("TERN_INTERRUPT_EVERY");
  return text == nullptr ? otherwise : std::max(1, std::atoi(text));
}

}  // namespace tern
