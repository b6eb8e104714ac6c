#include "cli/data_bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/progress.h"
#include "loader/loader.h"
#include "loader/view.h"

namespace tern {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double rate_of(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

Loader::Setup loader_setup(const BenchSetup& setup, const Plan& plan) {
  return {.dataset = setup.dataset,
          .plan = &plan,
          .seed = setup.seed,
          .augment = setup.augment,
          .options = setup.loader,
          .epochs = int64_t{1} << 30,
          .image = setup.image,
          .on_bad = OnBadSample::skip};
}

// A batch at a time, as the loader does where that pays: in a bucket. False where it does not.
Result<bool> fetch_together(const BenchSetup& setup, const Plan& plan, std::vector<Bytes>& stored) {
  for (int64_t begin = 0; begin < std::ssize(stored); begin += setup.batch) {
    const int64_t end = std::min(begin + setup.batch, std::ssize(stored));
    std::vector<int64_t> samples;
    for (int64_t i = begin; i < end; ++i) samples.push_back(plan.sample_at(0, i));
    std::vector<Result<Bytes>> all = setup.dataset->fetch_many(samples);
    if (all.empty()) return false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i]) return all[i].error();
      stored[static_cast<size_t>(begin) + i] = std::move(*all[i]);
    }
  }
  return true;
}

Status bench_fetch(const BenchSetup& setup, const Plan& plan, std::vector<Bytes>& stored,
                   BenchResult& result) {
  const int64_t count = std::ssize(stored);
  Nanoseconds start = setup.clock->now();
  ASSIGN_OR_RETURN(const bool is_done, fetch_together(setup, plan, stored));
  if (!is_done) {
    Bytes buffer;
    start = setup.clock->now();
    for (int64_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(setup.dataset->fetch(plan.sample_at(0, i), buffer));
    }
  }
  result.fetch_rate = rate_of(count, to_seconds(setup.clock->now() - start));
  int64_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bytes& kept = stored[static_cast<size_t>(i)];
    if (!is_done) {
      Bytes buffer;
      ASSIGN_OR_RETURN(const BytesView view, setup.dataset->fetch(plan.sample_at(0, i), buffer));
      kept = Bytes(view);
    }
    bytes += std::ssize(kept);
  }
  result.bytes_per_sample = bytes / count;
  return {};
}

// Stages one after the other over the same samples, so that each is measured alone.
Status bench_stages(const BenchSetup& setup, const Plan& plan, BenchResult& result) {
  const Dataset& dataset = *setup.dataset;
  const int64_t count = std::min(dataset.size(), setup.stage_samples);
  std::vector<Bytes> stored(static_cast<size_t>(count));
  RETURN_IF_ERROR(bench_fetch(setup, plan, stored, result));

  ImageShape shape = dataset.shape();
  if (setup.image.size > 0) shape.height = shape.width = setup.image.size;
  std::vector<uint8_t> image(static_cast<size_t>(shape.bytes()));
  ImageDecoder decoder;
  Nanoseconds start = setup.clock->now();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = plan.sample_at(0, i);
    View view;
    if (setup.image.size > 0) {
      Random random(setup.seed, Stream::view, 0, static_cast<uint64_t>(i));
      view = draw_resized_crop(setup.image, dataset.info(sample).size, random);
    }
    // A bad sample takes its time as well.
    dataset
        .decode(sample, stored[static_cast<size_t>(i)], setup.image.size > 0 ? &view : nullptr,
                decoder, image)
        .permit_unchecked_error();
  }
  result.decode_rate = rate_of(count, to_seconds(setup.clock->now() - start));

  if (!augments(setup.augment)) return {};
  std::vector<uint8_t> changed(image.size());
  start = setup.clock->now();
  for (int64_t i = 0; i < count; ++i) {
    Random random(setup.seed, Stream::augment, 0, static_cast<uint64_t>(i));
    augment_image(image, changed, shape, draw_augment(setup.augment, random));
  }
  result.augment_rate = rate_of(count, to_seconds(setup.clock->now() - start));
  return {};
}

Status bench_loader(const BenchSetup& setup, const Plan& plan, BenchResult& result) {
  for (int64_t pass = 0; pass < setup.passes; ++pass) {
    const Nanoseconds start = setup.clock->now();
    const double cpu = cpu_seconds();
    int64_t samples = 0;
    {
      Loader loader(loader_setup(setup, plan));
      while (samples < setup.samples) {
        ASSIGN_OR_RETURN(Batch batch, loader.next());
        if (samples == 0 && pass == 0) {
          result.first_batch_seconds = to_seconds(setup.clock->now() - start);
        }
        samples += batch.positions.size();
        loader.recycle(std::move(batch));
      }
      const double rate = rate_of(samples, to_seconds(setup.clock->now() - start));
      if (rate <= result.rate) continue;
      result.rate = rate;
    }
    // What the threads had prepared beyond the pass is thrown away with the loader: counted, since
    // they did work for it.
    result.rate_per_cpu_second = rate_of(samples, cpu_seconds() - cpu);
  }
  return {};
}

}  // namespace

Result<BenchResult> bench_data(const BenchSetup& setup) {
  const Plan plan(setup.dataset->id(), setup.dataset->size(), setup.seed, setup.batch,
                  setup.shuffle, setup.dataset->shards());
  BenchResult result{.threads = setup.loader.threads};
  // First, while nothing is warm that a run would find cold.
  RETURN_IF_ERROR(bench_loader(setup, plan, result));
  RETURN_IF_ERROR(bench_stages(setup, plan, result));
  return result;
}

std::string format_bench(const BenchResult& result) {
  struct Row {
    const char* name;
    double rate;
  };
  const std::vector<Row> rows = {{"fetch", result.fetch_rate},
                                 {"decode", result.decode_rate},
                                 {"augment", result.augment_rate}};
  const auto threads = static_cast<double>(std::max<int64_t>(1, result.threads));
  std::string text =
      fmt::format("stage      samples/s a core   limit with {} threads\n", result.threads);
  const Row* slowest = nullptr;
  for (const Row& row : rows) {
    if (row.rate <= 0) continue;
    text +=
        fmt::format("{:<10}{:>18}{:>24}\n", row.name, format_count(static_cast<int64_t>(row.rate)),
                    format_count(static_cast<int64_t>(row.rate * threads)));
    if (slowest == nullptr || row.rate < slowest->rate) slowest = &row;
  }
  text += fmt::format("end to end{:>42}   {} a CPU second\n",
                      format_count(static_cast<int64_t>(result.rate)),
                      format_count(static_cast<int64_t>(result.rate_per_cpu_second)));
  text += fmt::format("first batch after {:.0f} ms; {} a sample; {} bounds the rate\n",
                      result.first_batch_seconds * 1e3, format_bytes(result.bytes_per_sample),
                      slowest == nullptr ? "nothing" : slowest->name);
  return text;
}

nlohmann::json bench_json(const BenchResult& result) {
  return {{"samples_per_s", result.rate},
          {"samples_per_cpu_s", result.rate_per_cpu_second},
          {"threads", result.threads},
          {"first_batch_s", result.first_batch_seconds},
          {"bytes_per_sample", result.bytes_per_sample},
          {"stages_per_core",
           {{"fetch", result.fetch_rate},
            {"decode", result.decode_rate},
            {"augment", result.augment_rate}}}};
}

}  // namespace tern
