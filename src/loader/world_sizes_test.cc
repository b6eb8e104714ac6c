// Machines come and go: the same epoch is fed to 1, 2, 3, 5 and again 1 processes, killed without
// warning between them, and each world goes on behind the last batch that all ranks of the one
// before have reported.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/random.h"
#include "loader/test_loader.h"

namespace tern {
namespace {

constexpr int64_t kSamples = 1003;
constexpr int64_t kBatch = 16;

bool write_all(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = write(file, at, size);
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool read_all(int file, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = read(file, at, size);
    if (count <= 0) return false;  // the writer is gone, perhaps within a record
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// One rank in a process of its own: loads a batch for each byte it is sent, and reports it whole.
class RankProcess {
 public:
  explicit RankProcess(const Loader::Setup& setup) {
    int orders[2];
    int reports[2];
    if (pipe(orders) != 0 || pipe(reports) != 0) std::abort();
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      close(orders[1]);
      close(reports[0]);
      run(setup, orders[0], reports[1]);
      _exit(0);
    }
    close(orders[0]);
    close(reports[1]);
    orders_ = orders[1];
    reports_ = reports[0];
  }
  ~RankProcess() {
    kill_and_wait();
    close(orders_);
    close(reports_);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void order(int64_t batches) const {
    const std::vector<char> bytes(static_cast<size_t>(batches), 'x');
    EXPECT_TRUE(write_all(orders_, bytes.data(), bytes.size()));
  }
  // False at the end: the process is gone and what it reported before is read.
  bool read_report(Batch& batch) const {
    int64_t header[4];
    if (!read_all(reports_, header, sizeof(header))) return false;
    batch.index = header[0];
    batch.positions = {header[1], header[2]};
    batch.labels.resize(static_cast<size_t>(header[2] - header[1]));
    batch.images.resize(static_cast<size_t>(header[3]));
    return read_all(reports_, batch.labels.data(), batch.labels.size() * sizeof(int64_t)) &&
           read_all(reports_, batch.images.data(), batch.images.size());
  }
  void kill_and_wait() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
  }

 private:
  static void run(const Loader::Setup& setup, int orders, int reports) {
    Loader loader(setup);
    char order = 0;
    while (loader.position().epoch < setup.epochs && read_all(orders, &order, 1)) {
      const Result<Batch> batch = loader.next();
      if (!batch) _exit(1);
      const int64_t header[4] = {batch->index, batch->positions.begin, batch->positions.end,
                                 static_cast<int64_t>(batch->images.size())};
      if (!write_all(reports, header, sizeof(header)) ||
          !write_all(reports, batch->labels.data(), batch->labels.size() * sizeof(int64_t)) ||
          !write_all(reports, batch->images.data(), batch->images.size())) {
        _exit(1);
      }
    }
  }

  pid_t pid_ = -1;
  int orders_ = -1;
  int reports_ = -1;
};

// The batches that all ranks of one world reported before they were killed, put together.
std::vector<Batch> run_world(const Loader::Setup& setup, int64_t world, int64_t batches,
                             Random& random) {
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    Loader::Setup own = setup;
    own.rank = rank;
    own.world = world;
    ranks.push_back(std::make_unique<RankProcess>(own));
  }
  // Some ranks are ordered to go further than others, and may or may not get there.
  for (const auto& rank : ranks) rank->order(batches + random.below(4));
  std::vector<std::vector<Batch>> reported(ranks.size());
  const auto read_up_to = [&](size_t count) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      Batch batch;
      while (reported[rank].size() < count && ranks[rank]->read_report(batch)) {
        reported[rank].push_back(batch);
      }
    }
  };
  read_up_to(static_cast<size_t>(batches));
  for (const auto& rank : ranks) rank->kill_and_wait();
  read_up_to(SIZE_MAX);

  size_t complete = SIZE_MAX;
  for (const std::vector<Batch>& rank : reported) complete = std::min(complete, rank.size());
  std::vector<Batch> joined(reported[0].begin(),
                            reported[0].begin() + static_cast<std::ptrdiff_t>(complete));
  for (size_t rank = 1; rank < reported.size(); ++rank) {
    for (size_t i = 0; i < complete; ++i) {
      const Batch& share = reported[rank][i];
      EXPECT_EQ(share.index, joined[i].index);
      EXPECT_EQ(share.positions.begin, joined[i].positions.end);
      joined[i].positions.end = share.positions.end;
      joined[i].labels.insert(joined[i].labels.end(), share.labels.begin(), share.labels.end());
      joined[i].images.insert(joined[i].images.end(), share.images.begin(), share.images.end());
    }
  }
  return joined;
}

TEST(WorldSizes, KilledAndResumedWithOthersTheEpochIsThatOfOneProcess) {
  for (const Shuffle shuffle :
       {Shuffle{.order = Order::shuffled}, Shuffle{.order = Order::windowed, .window = 2}}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(shuffle_text(shuffle) + ", seed " + std::to_string(seed));
      // The label is the sample's number.
      const ScriptedDataset dataset(kSamples, kSamples);
      const Plan plan(dataset.id(), kSamples, seed, kBatch, shuffle, {300, 3, 400, 300});
      Loader::Setup setup{.dataset = &dataset,
                          .plan = &plan,
                          .seed = seed,
                          .augment = {.pad_crop = 2, .flip = true, .brightness = 0.4},
                          .options = {.threads = 2, .batches_ahead = 2}};
      std::vector<Batch> fed;
      Random random(seed, Stream::order, 99);
      for (const int64_t world : {1, 2, 3, 5, 1}) {
        const auto next = static_cast<int64_t>(fed.size());
        const bool is_last = world == 1 && next > 0;
        setup.start = {0, next};
        const int64_t batches =
            is_last ? plan.batches_per_epoch() - next : 1 + int64_t{random.below(12)};
        const std::vector<Batch> more = run_world(setup, world, batches, random);
        ASSERT_GE(static_cast<int64_t>(more.size()), batches);
        fed.insert(fed.end(), more.begin(), more.end());
      }

      ASSERT_EQ(static_cast<int64_t>(fed.size()), plan.batches_per_epoch());
      std::vector<int> times(kSamples);
      for (const Batch& batch : fed) {
        const auto at = static_cast<int64_t>(&batch - fed.data());
        setup.start = {};
        const Batch expected = load_batch(setup, {0, at}).value();
        ASSERT_EQ(batch.index, at);
        ASSERT_EQ(batch.positions, expected.positions);
        ASSERT_EQ(batch.labels, expected.labels);
        ASSERT_EQ(batch.images, expected.images);
        for (const int64_t label : batch.labels) ++times[static_cast<size_t>(label)];
      }
      EXPECT_EQ(std::ranges::count(times, 0), 0) << "samples lost";
      EXPECT_EQ(std::ranges::count(times, 1), kSamples) << "samples repeated";
    }
  }
}

}  // namespace
}  // namespace tern
